package writeback

import (
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// Next is the first dirty extent from index k on that is to be sent now, and how;
// the index is negative if there is none. What someone waits for is written
// FILE_SYNC if it is all there is: a small file costs no COMMIT, and needs no
// background writer, for which it would wait behind large files.
func (f *File) Next(k int) (int, nfsclient.Stable) {
	if k >= len(f.dirty) || !f.state.allows(sent) || f.state.Sending == Probing && len(f.flight) > 0 {
		return -1, 0
	}
	for ; k < len(f.dirty); k++ {
		e := f.dirty[k]
		switch {
		case !e.ready && e.seq > f.urgent || f.flight.overlaps(e.off, e.End()):
		case e.seq <= f.urgent && len(f.dirty) == 1 && len(f.flight) == 0 && len(f.unstable) == 0:
			return k, nfsclient.FileSync
		case len(f.flight) >= f.config.Share:
			return -1, 0
		default:
			return k, nfsclient.Unstable
		}
	}
	return -1, 0
}

// Send puts the dirty extent at index k, which Next has returned, in flight.
func (f *File) Send(k int) *Extent {
	f.must(sent)
	e := f.dirty[k]
	f.dirty.remove(e)
	e.vec[0] = e.Seg()
	f.flight.insert(e)
	return e
}

// Unsend makes e, of which nothing was sent after all, dirty again.
func (f *File) Unsend(e *Extent) {
	f.flight.remove(e)
	f.dirty.insert(e)
}

// Written is how the WRITE of an extent has ended.
type Written struct {
	// How durable all of it is; Ver goes with Unstable.
	How nfsclient.Stable
	Ver nfsclient.Verifier
	Err error
	// Unknown: the error says nothing of what the server has done or will do, as
	// the call was given up. The bytes are dirty again.
	Unknown bool
}

// Wrote ends the WRITE of e, which was put in flight by Send. If the file is
// Delayed for it, Advance is due after wait, at due.
func (f *File) Wrote(now time.Time, e *Extent, w Written) (wait time.Duration, due time.Time) {
	if TryLater(w.Err) {
		wait, due = f.postpone(now)
		w.Unknown = true
	} else {
		f.must(answered)
		f.delay = nil
	}
	f.flight.remove(e)
	switch {
	case w.Unknown:
		f.redirty(e)
	case w.Err != nil:
		f.drop(e)
	default:
		f.stored(e, w.How, w.Ver)
	}
	f.wake = true
	return wait, due
}

// WroteDirect ends the WRITE of e, which was put in flight by Claim. Its error
// was told to whoever wrote it, so that nothing is kept of it.
func (f *File) WroteDirect(e *Extent, w Written) {
	f.flight.remove(e)
	if w.Err != nil {
		f.drop(e)
	} else {
		f.stored(e, w.How, w.Ver)
	}
	f.wake = true
}

// stored takes e, which the server has.
func (f *File) stored(e *Extent, how nfsclient.Stable, ver nfsclient.Verifier) {
	oldest := f.replace(e.off, e.End())
	if how != nfsclient.Unstable {
		f.drop(e)
		return
	}
	e.ver, e.seq = ver, min(e.seq, oldest)
	f.unstable.insert(e)
}
