package writeback

import (
	"math"
	"time"

	"github.com/rdmafs/rdmafs/cache/bufpool"
)

// Config is what the files of a mount have in common.
type Config struct {
	// Block is the largest WRITE; extents end at multiples of it, so that WRITEs
	// are aligned.
	Block int
	// Share bounds the WRITEs of one file in flight that hold a background writer
	// of the owner's.
	Share int
	// MaxDirty is the memory that all files may fill.
	MaxDirty int
	// Delay is how long an extent that is not full waits for more.
	Delay time.Duration
}

// Owner is told within an event what cannot wait until it is over. It must not
// call the File.
type Owner interface {
	// Release gets a buffer that no extent is in any more.
	Release(bufpool.Lease)
	// Departed says that [off, end) left the layers. A READ that was sent before
	// the server had those bytes may lack them, and from now on nothing lies over
	// its answer.
	Departed(off, end int64)
}

// File is the write-back of one file. The zero File is one that was never
// written: it may be asked, but takes no event.
type File struct {
	config *Config
	owner  Owner

	// Newer layers lie over older ones.
	dirty, flight, unstable layer

	state  State
	wake   bool   // waiters should look again
	seq    uint64 // of the last write
	urgent uint64 // writes up to here are to be sent now
	commit uint64 // number of the last COMMIT
	call   *call  // what CommitSent knows, else nil

	delay    *delay    // nil if Free
	mismatch *mismatch // nil unless the last COMMIT found all data lost

	errors Errors
}

// Make makes the write-back of a file that has none.
func Make(c *Config, o Owner) File { return File{config: c, owner: o} }

// State is the state.
func (f *File) State() State { return f.state }

// Woken says, once, that those who wait for the file should look again.
func (f *File) Woken() bool {
	w := f.wake
	f.wake = false
	return w
}

// Empty says that all written bytes are on stable storage.
func (f *File) Empty() bool { return len(f.dirty)+len(f.flight)+len(f.unstable) == 0 }

// Unsent says that bytes are dirty or in flight.
func (f *File) Unsent() bool { return len(f.dirty)+len(f.flight) > 0 }

// UnsentIn says that bytes of [off, end) are.
func (f *File) UnsentIn(off, end int64) bool {
	return f.dirty.overlaps(off, end) || f.flight.overlaps(off, end)
}

// End is where the last written byte ends.
func (f *File) End() int64 { return max(f.dirty.end(), f.flight.end(), f.unstable.end()) }

// Seq numbers the last write, for Sync and Drain.
func (f *File) Seq() uint64 { return f.seq }

// Errors is what could not be written.
func (f *File) Errors() *Errors { return &f.errors }

// drop lets go of e, which is in no layer any more.
func (f *File) drop(e *Extent) {
	f.owner.Departed(e.off, e.End())
	f.unref(e.buf)
}

func (f *File) unref(b *buffer) {
	if b.refs--; b.refs == 0 {
		f.owner.Release(b.lease)
		b.opening.Release()
	}
}

// redirty makes e, which is in no layer any more, dirty where nothing newer is:
// its bytes have to be sent once more.
func (f *File) redirty(e *Extent) {
	f.dirty.inherit(e.off, e.End(), e.seq)
	f.flight.inherit(e.off, e.End(), e.seq)
	for _, d := range f.dirty.gaps(nil, e.off, e.End()) {
		for _, g := range f.flight.gaps(nil, d.off, d.end) {
			p := e.part(g.off, g.end)
			p.ready = true
			f.dirty.insert(p)
		}
	}
	f.unref(e.buf)
}

// replace cuts [off, end) out of unstable: newer bytes are on the server. It
// returns the sequence number of the oldest write that has lost some.
func (f *File) replace(off, end int64) (oldest uint64) {
	oldest = math.MaxUint64
	for {
		k := f.unstable.from(off)
		if k == len(f.unstable) || f.unstable[k].off >= end {
			return oldest
		}
		e := f.unstable[k]
		oldest = min(oldest, e.seq)
		f.unstable.remove(e)
		if e.off < off {
			f.unstable.insert(e.part(e.off, off))
		}
		if e.End() > end {
			f.unstable.insert(e.part(end, e.End()))
		}
		f.unref(e.buf)
	}
}

// Abandon drops everything, and returns how many bytes are not known to be on
// stable storage. No call to the server is in flight.
func (f *File) Abandon() (lost int) {
	f.must(abandoned)
	f.delay = nil
	for _, l := range []*layer{&f.dirty, &f.flight, &f.unstable} {
		lost += l.size()
		for _, e := range *l {
			f.unref(e.buf)
		}
		*l = nil
	}
	f.wake = true
	return lost
}
