package cache

import (
	"math"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// writeback is the data of a file that is not known to be on stable storage;
// Inode.mu guards it. Newer layers stand over older ones: dirty has not been
// sent, flight is being sent, unstable was answered and waits for a COMMIT.
// No two WRITEs under way overlap, since dirty extents wait for those in
// flight; unstable never keeps a byte that a later WRITE has replaced. Until a
// write is on stable storage, what has replaced it answers for it.
type writeback struct {
	dirty, flight, unstable layer

	seq     uint64 // of the last write
	sendSeq uint64 // writes up to here are to be sent now
	frozen  bool   // a truncation is under way: no new data
	held    bool   // and begun: no COMMIT either
	direct  int    // unstaged writes under way
	stalled bool   // in Cache.stalled
	batch   uint64 // of the last COMMIT
	commits bool   // one is under way
	listed  bool   // in Cache.dirty

	slow     *slowdown // nil unless the server wants WRITEs later
	restarts *restarts // nil unless the last COMMIT found data lost

	errors uint64 // writes that failed for good
	err    error  // the last of those errors
}

func (w *writeback) empty() bool {
	return len(w.dirty)+len(w.flight)+len(w.unstable) == 0
}

func (w *writeback) unsent() bool { return len(w.dirty)+len(w.flight) > 0 }

func (w *writeback) end() int64 { return max(w.dirty.end(), w.flight.end(), w.unstable.end()) }

// overlay puts all layers over dst.
func (w *writeback) overlay(dst []byte, off int64) {
	w.unstable.overlay(dst, off)
	w.flight.overlay(dst, off)
	w.dirty.overlay(dst, off)
}

// dropExtent lets go of e, which is in no layer any more. Reads that started before
// its bytes reached the server must not be staged from now on: nothing would
// lie over them. mu is held.
func (i *Inode) dropExtent(e *extent) {
	i.detachSpans(e.off, e.end())
	i.unref(e.st)
}

func (i *Inode) unref(s *stage) {
	if s.refs--; s.refs == 0 {
		n := s.buf.Len()
		s.buf.Release()
		s.open.release()
		i.c.unstage(n)
	}
}

// list keeps Cache.dirty up to date; mu is held, and a reference of the
// caller's keeps i alive.
func (i *Inode) list() {
	w := &i.wb
	if w.listed == !w.empty() {
		return
	}
	w.listed = !w.listed
	c := i.c
	c.mu.Lock()
	if w.listed {
		c.dirty[i] = struct{}{}
		i.refs.Add(1)
	} else {
		delete(c.dirty, i)
	}
	c.mu.Unlock()
	if !w.listed {
		i.unpin()
	}
}

// redirty makes e dirty again where nothing newer is: its bytes have to be
// sent once more. It takes over e's hold on the stage.
func (i *Inode) redirty(e *extent) {
	w := &i.wb
	w.dirty.inherit(e.off, e.end(), e.seq)
	w.flight.inherit(e.off, e.end(), e.seq)
	for _, d := range w.dirty.gaps(nil, e.off, e.end()) {
		for _, g := range w.flight.gaps(nil, d.off, d.end) {
			p := e.part(g.off, g.end)
			p.ready, p.batch = true, 0
			w.dirty.insert(p)
		}
	}
	i.unref(e.st)
}

// replaced cuts [off, end) out of unstable: newer bytes are on the server. It
// returns the seq of the oldest write that has lost some.
func (i *Inode) replaced(off, end int64) (oldest uint64) {
	w := &i.wb
	oldest = math.MaxUint64
	for {
		k := w.unstable.from(off)
		if k == len(w.unstable) || w.unstable[k].off >= end {
			return oldest
		}
		e := w.unstable[k]
		oldest = min(oldest, e.seq)
		w.unstable.remove(e)
		if e.off < off {
			w.unstable.insert(e.part(e.off, off))
		}
		if e.end() > end {
			w.unstable.insert(e.part(end, e.end()))
		}
		i.unref(e.st)
	}
}

// abandon drops everything and returns how many bytes were not written; mu is
// held and nothing is under way.
func (w *writeback) abandon(i *Inode) (lost int) {
	for _, l := range []*layer{&w.dirty, &w.flight, &w.unstable} {
		for _, e := range *l {
			lost += e.n
			i.unref(e.st)
		}
		*l = nil
	}
	i.list()
	return lost
}

// sent ends the WRITE of e, which is in flight; mu is held. again says that
// its fate is unknown and it has to be sent again.
func (i *Inode) sent(e *extent, how nfsclient.Stable, ver nfsclient.Verifier, again bool, err error) {
	w := &i.wb
	w.flight.remove(e)
	switch {
	case again:
		i.redirty(e)
	case err != nil:
		i.fail(err)
		i.dropExtent(e)
	default:
		i.node.Size = max(i.node.Size, uint64(e.end()))
		oldest := i.replaced(e.off, e.end())
		if how == nfsclient.Unstable {
			e.ver, e.batch, e.seq = ver, 0, min(e.seq, oldest)
			w.unstable.insert(e)
		} else {
			i.dropExtent(e)
		}
	}
	i.list()
	i.awaken()
}
