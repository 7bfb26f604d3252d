package writeback

import (
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// Transfer is the WRITE of one extent, in as many calls as the server makes of
// it. It is not part of a File's state: its owner needs no lock for it.
type Transfer struct {
	n, done int
	how     nfsclient.Stable
	ver     nfsclient.Verifier // of what is Unstable
	backoff Backoff
	again   bool
}

// NewTransfer begins a WRITE of n bytes.
func NewTransfer(n int) Transfer { return Transfer{n: n, how: nfsclient.FileSync} }

// Rest is the range of the extent that is still to be sent; it is empty at the
// end.
func (t *Transfer) Rest() (from, to int) { return t.done, t.n }

// Result is how durable all of it is at the end; the verifier goes with Unstable.
func (t *Transfer) Result() (nfsclient.Stable, nfsclient.Verifier) { return t.how, t.ver }

// Wrote takes the server's answer to a WRITE of the rest, and says how long to
// wait before the next one. ok is false if the answer makes no sense.
func (t *Transfer) Wrote(r *nfsclient.WriteResult) (wait time.Duration, ok bool) {
	if r.N <= 0 || r.N > t.n-t.done {
		return 0, false
	}
	if r.Committed == nfsclient.Unstable {
		if t.how == nfsclient.Unstable && t.ver != r.Verifier {
			// The server restarted between two parts: all over again. If it does so
			// all the time, not at full speed.
			if t.again {
				wait = t.backoff.Next()
			}
			t.done, t.how, t.again = 0, nfsclient.FileSync, true
			return wait, true
		}
		t.how, t.ver = nfsclient.Unstable, r.Verifier
	}
	t.done += r.N
	return 0, true
}
