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

// Complete is how long it may be believed that a name which the caller does not have does
// not exist, 0 if that is not known. While a
// change of ours is under way that is not known of the name that it is about. The server
// must have shown the directory's state within the last window, and since the generation
// sign, when another client was last seen to change anything: so long a name that
// another client makes may go unseen. Every reply with attributes shows the state.
func (n *Node) Complete(r Rules, now, window time.Duration, sign uint64) time.Duration {
	if !n.complete || n.Changing() || n.attrGen <= sign {
		return 0
	}
	return max(0, min(n.TTL(now), n.shown(r)+window-now))
}

// shown is when the call was sent whose reply brought the attributes.
func (n *Node) shown(r Rules) time.Duration { return n.expires - n.timeout(r) }
