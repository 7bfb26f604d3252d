package writeback

import (
	"errors"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport"
)

// delay is what a file that is not Free waits for. Servers that are short of
// something ask for a call again later (NFS3ERR_JUKEBOX); so may a client that
// gives that answer through. The data is dirty again and holds no background
// writer meanwhile.
type delay struct {
	backoff Backoff
	due     time.Time // when Delayed ends
}

// Backoff is how long to wait before each further try: twice as long as before.
type Backoff struct{ last time.Duration }

// The bounds of a Backoff.
const (
	BackoffFirst = 100 * time.Millisecond
	BackoffLast  = 5 * time.Second
)

// Next is how long to wait now.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, BackoffFirst), BackoffLast)
	return b.last
}

// TryLater reports whether data that could not be written is to be kept and written later:
// the server says so, or whoever wrote it has no credential now, as of an expired ticket.
func TryLater(err error) bool {
	s, ok := nfsclient.StatusOf(err)
	return ok && s == nfsclient.ErrJukebox || errors.Is(err, transport.ErrAwaitCredential)
}

// postpone makes the file Delayed. WRITEs that were in flight beside the one that
// did so do not make it longer: wait is 0.
func (f *File) postpone(now time.Time) (wait time.Duration, due time.Time) {
	was := f.state.Sending
	f.must(later)
	if was == Delayed {
		return 0, due
	}
	if f.delay == nil {
		f.delay = &delay{}
	}
	wait = f.delay.backoff.Next()
	f.delay.due = now.Add(wait)
	return wait, f.delay.due
}

// Advance does what is due at now: a Delayed file sends one WRITE.
func (f *File) Advance(now time.Time) {
	if f.state.Sending == Delayed && !now.Before(f.delay.due) {
		f.must(elapsed)
	}
}
