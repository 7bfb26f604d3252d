package cache

import (
	"sort"
	"time"

	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// stage is a leased buffer that extents share; the last one releases it, and the
// opening that its WRITEs carry.
type stage struct {
	buf  bufpool.Lease
	open *opening
	refs int // by Inode.mu
}

// extent is n bytes of a file from off, at byte at of its stage.
type extent struct {
	off int64
	n   int
	at  int
	st  *stage

	cr    nfsclient.Cred
	key   userKey
	seq   uint64    // of the oldest write in it, or that it answers for
	born  time.Time // when that was
	ready bool      // send without waiting for more
	ver   nfsclient.Verifier
	batch uint64 // the COMMIT under way that covers it
}

func (e *extent) end() int64    { return e.off + int64(e.n) }
func (e *extent) bytes() []byte { return e.st.buf.Bytes()[e.at : e.at+e.n] }
func (e *extent) seg() mem.Seg  { return e.st.buf.Seg().Slice(e.at, e.n) }

// part is the bytes [from, to) of e as an extent of their own, sharing the
// stage.
func (e *extent) part(from, to int64) *extent {
	p := *e
	p.off, p.n, p.at = from, int(to-from), e.at+int(from-e.off)
	p.st.refs++
	return &p
}

// layer is a list of extents in the order of their offsets, none overlapping
// another.
type layer []*extent

// from is the index of the first extent that ends behind off.
func (l layer) from(off int64) int {
	return sort.Search(len(l), func(k int) bool { return l[k].end() > off })
}

func (l layer) overlaps(off, end int64) bool {
	k := l.from(off)
	return k < len(l) && l[k].off < end
}

func (l *layer) insert(e *extent) {
	k := l.from(e.off)
	*l = append(*l, nil)
	copy((*l)[k+1:], (*l)[k:])
	(*l)[k] = e
}

func (l *layer) remove(e *extent) {
	k := l.from(e.off)
	for (*l)[k] != e {
		k++
	}
	copy((*l)[k:], (*l)[k+1:])
	(*l)[len(*l)-1] = nil
	*l = (*l)[:len(*l)-1]
}

// inherit has what stands in [off, end) answer for a write from seq on whose
// bytes it replaces: who waits for that write waits for these then.
func (l layer) inherit(off, end int64, seq uint64) {
	for k := l.from(off); k < len(l) && l[k].off < end; k++ {
		l[k].seq = min(l[k].seq, seq)
	}
}

func (l layer) end() int64 {
	if len(l) == 0 {
		return 0
	}
	return l[len(l)-1].end()
}

// gap is a stretch of a file.
type gap struct{ off, end int64 }

// gaps appends the stretches of [off, end) that l does not cover.
func (l layer) gaps(to []gap, off, end int64) []gap {
	for k := l.from(off); k < len(l) && l[k].off < end; k++ {
		if l[k].off > off {
			to = append(to, gap{off, l[k].off})
		}
		off = l[k].end()
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
		from, to := max(off, e.off), min(end, e.end())
		copy(dst[from-off:to-off], e.bytes()[from-e.off:])
	}
}
