package nfsclient

import "context"

// Watcher hears from a Client what its server has said without being asked. Its
// methods are called from any goroutine of the Client's, with no lock held that
// a call of the Client needs.
type Watcher interface {
	// Recalled says that the server takes back a promise that others leave a file
	// alone, as by CB_RECALL of NFSv4. When it returns, what was written is sent,
	// and nothing that was learnt before is believed any more. The error is that
	// of sending, or that ctx has ended.
	Recalled(ctx context.Context, h Handle) error
	// Lost says that the server has lost what it kept of openings or locks of a
	// file, and that they cannot be had back. With an owner, it is a lock of that
	// owner alone, who must be told err; with nil, all must who have written what is
	// not stable yet. What is read and written afterwards has errors of its own.
	Lost(h Handle, owner *LockOwner, err error)
}
