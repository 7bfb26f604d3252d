package writeback

import (
	"sort"
	"time"

	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// UserKey tells users apart: two credentials with equal keys are the same.
type UserKey struct {
	UID, GID uint32
	Groups   uint64 // a hash
}

// Writer is in whose name bytes are written.
type Writer struct {
	Cred nfsclient.Cred
	Key  UserKey
	Opening
}

// Opening is what the server keeps of an open file, which WRITEs carry. Each
// buffer has a reference to it: it outlives the last WRITE.
type Opening interface {
	Hold()
	Release()
}

// buffer is a leased buffer that extents share; the last one has it released.
type buffer struct {
	lease   bufpool.Lease
	opening Opening
	refs    int
}

func newBuffer(l bufpool.Lease, o Opening) *buffer {
	o.Hold()
	return &buffer{l, o, 1}
}

// Extent is a run of written bytes. Its range, writer and memory stay the same
// while it is in flight.
type Extent struct {
	off int64
	n   int
	at  int // where it begins in buf
	buf *buffer

	cred nfsclient.Cred
	user UserKey

	seq    uint64    // of the oldest write in it, or that it answers for
	born   time.Time // when its first byte was written
	ready  bool      // send it without waiting for more
	ver    nfsclient.Verifier
	commit uint64 // the last COMMIT that covered it

	vec [1]mem.Seg // of one in flight: its bytes
}

// newExtent makes an extent and its buffer, which mostly end together, in one allocation.
func newExtent(n int, l bufpool.Lease, by *Writer) *Extent {
	x := &struct {
		e Extent
		b buffer
	}{Extent{n: n, cred: by.Cred, user: by.Key}, buffer{l, by.Opening, 1}}
	by.Opening.Hold()
	x.e.buf = &x.b
	return &x.e
}

// Off is where in the file the extent begins.
func (e *Extent) Off() int64 { return e.off }

// End is where it ends.
func (e *Extent) End() int64 { return e.off + int64(e.n) }

// Len is its length in bytes.
func (e *Extent) Len() int { return e.n }

// Seg is its bytes as registered memory.
func (e *Extent) Seg() mem.Seg { return e.buf.lease.Seg().Slice(e.at, e.n) }

// Vec is the bytes of an extent in flight, as a WRITE takes them.
func (e *Extent) Vec() mem.Vec { return e.vec[:] }

// Cred is its writer's credential.
func (e *Extent) Cred() nfsclient.Cred { return e.cred }

// Opening is what its WRITEs carry.
func (e *Extent) Opening() Opening { return e.buf.opening }

func (e *Extent) bytes() []byte { return e.buf.lease.Bytes()[e.at : e.at+e.n] }

// part is the bytes [from, to) of e as an extent of their own in the same
// buffer. It leaves vec alone, which belongs to the sender of e.
func (e *Extent) part(from, to int64) *Extent {
	e.buf.refs++
	return &Extent{
		off: from, n: int(to - from), at: e.at + int(from-e.off), buf: e.buf,
		cred: e.cred, user: e.user,
		seq: e.seq, born: e.born, ready: e.ready, ver: e.ver, commit: e.commit,
	}
}

// layer is a list of extents in the order of their offsets, none overlapping
// another.
type layer []*Extent

// from is the index of the first extent that ends behind off.
func (l layer) from(off int64) int {
	return sort.Search(len(l), func(k int) bool { return l[k].End() > off })
}

func (l layer) overlaps(off, end int64) bool {
	k := l.from(off)
	return k < len(l) && l[k].off < end
}

func (l layer) endsAt(off int64) bool {
	k := l.from(off - 1)
	return k < len(l) && l[k].End() == off
}

func (l *layer) insert(e *Extent) {
	k := l.from(e.off)
	*l = append(*l, nil)
	copy((*l)[k+1:], (*l)[k:])
	(*l)[k] = e
}

func (l *layer) remove(e *Extent) {
	k := l.from(e.off)
	for (*l)[k] != e {
		k++
	}
	copy((*l)[k:], (*l)[k+1:])
	(*l)[len(*l)-1] = nil
	*l = (*l)[:len(*l)-1]
}

// inherit makes what stands in [off, end) answer for a write from seq on whose
// bytes it replaces: whoever waits for that write then waits for these.
func (l layer) inherit(off, end int64, seq uint64) {
	for k := l.from(off); k < len(l) && l[k].off < end; k++ {
		l[k].seq = min(l[k].seq, seq)
	}
}

// before says whether a write up to target is in l.
func (l layer) before(target uint64) bool {
	for _, e := range l {
		if e.seq <= target {
			return true
		}
	}
	return false
}

// size is the bytes in l.
func (l layer) size() (n int) {
	for _, e := range l {
		n += e.n
	}
	return n
}

func (l layer) end() int64 {
	if len(l) == 0 {
		return 0
	}
	return l[len(l)-1].End()
}

// gap is a stretch of a file.
type gap struct{ off, end int64 }

// gaps appends the stretches of [off, end) that l does not cover.
func (l layer) gaps(to []gap, off, end int64) []gap {
	for k := l.from(off); k < len(l) && l[k].off < end; k++ {
		if l[k].off > off {
			to = append(to, gap{off, l[k].off})
		}
		off = l[k].End()
	}
	if off < end {
		to = append(to, gap{off, end})
	}
	return to
}

// overlay copies the layer's bytes over dst, which stands for the file from
// off.
func (l layer) overlay(dst []byte, off int64) {
	end := off + int64(len(dst))
	for k := l.from(off); k < len(l) && l[k].off < end; k++ {
		e := l[k]
		from, to := max(off, e.off), min(end, e.End())
		copy(dst[from-off:to-off], e.bytes()[from-e.off:])
	}
}
