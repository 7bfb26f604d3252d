package coherence

import (
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// A directory is completely known from when we have made it, by a call sent at st
// whose answer brought the attributes a, for as long as all changes of it are ours and
// the caller keeps each name that they make: what it does not have then does not
// exist. Foreign ends that, and so does a change of ours without attributes from
// before and after it.

// Born says that the directory is new and empty, unless it has changed since.
func (n *Node) Born(st Stamp, a *nfsclient.Attr) { n.complete = n.Agrees(st, a) }

// Incomplete says that the caller may lack a name.
func (n *Node) Incomplete() { n.complete = false }

// Complete reports whether a name that the caller does not have does not exist. While a
// change of ours is under way that is not known of the name that it is about. The
// attributes must be fresh: how long a name that another client makes may go unseen is
// what the mount's options say for names that were looked up.
func (n *Node) Complete(now time.Duration) bool {
	return n.complete && !n.Changing() && n.Fresh(now)
}
