package writeback

import (
	"math"
	"time"

	"github.com/rdmafs/rdmafs/cache/bufpool"
)

// delayedShare is the part of MaxDirty that a file may fill whose WRITEs the
// server wants later, as a divisor: its writers must not take the memory of all
// others.
const delayedShare = 32

// Taken is what Write has done.
type Taken struct {
	// N is how many bytes were taken.
	N int
	// Need is the size of a buffer that Write wants as spare before it takes more.
	Need int
	// Blocked: nothing is taken until Woken.
	Blocked bool
}

// Write makes the start of src, which by writes at off, dirty. A new extent takes
// *spare for its buffer.
func (f *File) Write(now time.Time, by *Writer, src []byte, off int64, spare *bufpool.Lease) Taken {
	if f.Crowded() || f.foreign(by, off, off+int64(len(src))) || !f.try(written) {
		return Taken{Blocked: true}
	}
	k := f.dirty.from(off)
	if k < len(f.dirty) && f.dirty[k].off <= off { // overwrite
		f.seq++
		return Taken{N: copy(f.dirty[k].bytes()[off-f.dirty[k].off:], src)}
	}
	block := int64(f.config.Block)
	stop := off - off%block + block
	if stop < 0 {
		stop = math.MaxInt64
	}
	room := stop - off
	if k < len(f.dirty) {
		room = min(room, f.dirty[k].off-off)
	}
	n := int(min(int64(len(src)), room))
	if off%block != 0 && k > 0 {
		if e := f.dirty[k-1]; e.End() == off && e.user == by.Key && e.buf.refs == 1 {
			return f.extend(e, src[:n], int(stop-e.off), spare)
		}
	}
	need := n
	if k > 0 && f.dirty[k-1].End() == off || f.flight.endsAt(off) || f.unstable.endsAt(off) {
		need = int(stop - off) // a stream goes on
	}
	if !spare.Valid() || spare.Len() < n {
		return Taken{Need: need}
	}
	f.seq++
	e := newExtent(n, *spare, by)
	e.off, e.seq, e.born = off, f.seq, now
	*spare = bufpool.Lease{}
	copy(e.bytes(), src)
	e.ready = e.n == int(block)
	f.dirty.insert(e)
	return Taken{N: n}
}

// Crowded says that the server wants the file's WRITEs later, and enough data
// waits for that.
func (f *File) Crowded() bool {
	return f.state.Sending != Free && f.dirty.size() > f.config.MaxDirty/delayedShare
}

// foreign says whether bytes of another user are dirty in [off, end), and makes
// them ready: a WRITE is one user's.
func (f *File) foreign(by *Writer, off, end int64) (found bool) {
	for k := f.dirty.from(off); k < len(f.dirty) && f.dirty[k].off < end; k++ {
		if e := f.dirty[k]; e.user != by.Key {
			e.ready, found = true, true
		}
	}
	return found
}

// extend appends src to e, which may become most bytes long.
func (f *File) extend(e *Extent, src []byte, most int, spare *bufpool.Lease) Taken {
	have := e.buf.lease.Len() - e.at - e.n
	if have == 0 {
		if !spare.Valid() || spare.Len() <= e.n {
			return Taken{Need: min(most, max(e.n+len(src), 8*e.n))}
		}
		copy(spare.Bytes(), e.bytes())
		grown := newBuffer(*spare, e.buf.opening)
		f.unref(e.buf)
		e.buf, e.at = grown, 0
		*spare = bufpool.Lease{}
		have = e.buf.lease.Len() - e.n
	}
	f.seq++
	n := min(have, len(src))
	copy(e.buf.lease.Bytes()[e.at+e.n:], src[:n])
	e.n += n
	e.ready = e.ready || e.n == most
	return Taken{N: n}
}

// Direct makes the first n bytes of buf, which by writes past the layers, an
// extent for Claim. Unclaim must follow if that is given up.
func Direct(by Writer, buf bufpool.Lease, n int) *Extent {
	return newExtent(n, buf, &by)
}

// Unclaim releases e, which was not put in flight.
func (f *File) Unclaim(e *Extent) { f.unref(e.buf) }

// Claim puts e in flight at off, once nothing unsent overlaps it; until then it
// makes that ready, and says false: wait until Woken.
func (f *File) Claim(e *Extent, off int64) bool {
	e.off = off
	end := e.End()
	if f.UnsentIn(off, end) || !f.try(written) {
		for k := f.dirty.from(off); k < len(f.dirty) && f.dirty[k].off < end; k++ {
			f.dirty[k].ready = true
		}
		return false
	}
	f.seq++
	e.seq = f.seq
	e.vec[0] = e.Seg()
	f.flight.insert(e)
	return true
}
