package vfs

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// pending is the unstable writes of a file in lossy mode: what a crash loses.
type pending struct {
	ext   []extent // in ascending order, apart from each other
	bytes int64
	mtime unix.StatxTimestamp
}

type extent struct {
	off  uint64
	data []byte
}

func (e extent) end() uint64 { return e.off + uint64(len(e.data)) }

// amend makes st what it will be once the writes are applied.
func (p *pending) amend(st *Stat) {
	if k := len(p.ext); k > 0 {
		st.Size = max(st.Size, p.ext[k-1].end())
	}
	if p.mtime.Sec > st.Mtime.Sec || p.mtime.Sec == st.Mtime.Sec && p.mtime.Nsec > st.Mtime.Nsec {
		st.Mtime = p.mtime
	}
	if p.mtime.Sec > st.Ctime.Sec || p.mtime.Sec == st.Ctime.Sec && p.mtime.Nsec > st.Ctime.Nsec {
		st.Ctime = p.mtime
	}
}

// insert takes e; what it covers of older writes is cut away.
func (p *pending) insert(e extent) {
	first, _ := slices.BinarySearchFunc(p.ext, e.off, func(x extent, off uint64) int {
		if x.end() <= off {
			return -1
		}
		return 1
	})
	last := first
	var around []extent
	for last < len(p.ext) && p.ext[last].off < e.end() {
		old := p.ext[last]
		p.bytes -= int64(len(old.data))
		if old.off < e.off {
			around = append(around, extent{old.off, old.data[:e.off-old.off]})
		}
		last++
	}
	around = append(around, e)
	if last > first {
		if old := p.ext[last-1]; old.end() > e.end() {
			around = append(around, extent{e.end(), old.data[e.end()-old.off:]})
		}
	}
	for _, x := range around {
		p.bytes += int64(len(x.data))
	}
	p.ext = slices.Replace(p.ext, first, last, around...)
}

// overlay puts the writes over b, of which got bytes were read at off from a
// file that is size bytes long with the writes, and returns how many bytes of b
// then hold.
func (p *pending) overlay(b []byte, off uint64, got int, size uint64) int {
	if off >= size {
		return got
	}
	want := int(min(uint64(len(b)), size-off))
	if want > got {
		clear(b[got:want])
	}
	for _, e := range p.ext {
		if e.end() <= off {
			continue
		}
		if e.off >= off+uint64(want) {
			break
		}
		if e.off >= off {
			copy(b[e.off-off:want], e.data)
		} else {
			copy(b[:want], e.data[off-e.off:])
		}
	}
	return max(want, got)
}

// keep remembers a write instead of carrying it out. n.mu is held.
func (t *Tree) keep(n *Node, off uint64, data []byte) {
	if len(data) == 0 {
		return
	}
	if n.pend == nil {
		n.pend = &pending{}
		t.ref(n)
	}
	before := n.pend.bytes
	n.pend.insert(extent{off, slices.Clone(data)})
	t.pending.Add(n.pend.bytes - before)
	now := time.Now()
	n.pend.mtime = unix.StatxTimestamp{Sec: now.Unix(), Nsec: uint32(now.Nanosecond())}
}

// apply carries out the writes kept of n; on an error they are kept still. n.mu
// is held.
func (t *Tree) apply(n *Node) error {
	if n.pend == nil {
		return nil
	}
	fd, err := t.writer(n)
	if err != nil {
		return err
	}
	for _, e := range n.pend.ext {
		for len(e.data) > 0 {
			done, err := writeAll(fd, e.data, int64(e.off))
			if err != nil {
				return err
			}
			e.off, e.data = e.off+uint64(done), e.data[done:]
		}
	}
	t.discard(n)
	return nil
}

// settle applies and syncs what is kept of n. n.mu is held.
func (t *Tree) settle(n *Node) error {
	if n.pend == nil {
		return nil
	}
	if err := t.apply(n); err != nil {
		t.discard(n)
		return err
	}
	fd, err := t.writer(n)
	if err != nil {
		return err
	}
	return t.sync(n, fd, false)
}

// discard drops the writes kept of n. n.mu is held.
func (t *Tree) discard(n *Node) {
	if n.pend == nil {
		return
	}
	t.pending.Add(-n.pend.bytes)
	n.pend = nil
	t.Put(n)
}

// Forget loses every unstable write not committed, as a crash would.
func (t *Tree) Forget() {
	for _, n := range t.nodes.all() {
		n.mu.Lock()
		t.discard(n)
		n.mu.Unlock()
		t.Put(n)
	}
}

// ref refers to a node to which the caller refers already.
func (t *Tree) ref(n *Node) {
	s := t.nodes.of(n.handle)
	s.mu.Lock()
	n.refs++
	s.mu.Unlock()
}
