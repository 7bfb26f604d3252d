package writeback

// Overlay puts what was written over dst, which stands for the file from off.
func (f *File) Overlay(dst []byte, off int64) {
	f.unstable.overlay(dst, off)
	f.flight.overlay(dst, off)
	f.dirty.overlay(dst, off)
}

// Covers says whether the layers have all of [off, end).
func (f *File) Covers(off, end int64) bool {
	for off < end {
		to := off
		for _, l := range []layer{f.dirty, f.flight, f.unstable} {
			if k := l.from(off); k < len(l) && l[k].off <= off {
				to = max(to, l[k].End())
			}
		}
		if to == off {
			return false
		}
		off = to
	}
	return true
}

// Snapshot is what the layers had of a range, oldest layer first.
type Snapshot [3]layer

// Snapshot keeps what the layers have of [off, end) until Forget: it may reach
// the server, and leave the layers, after the server has answered a READ.
func (f *File) Snapshot(off, end int64) (s Snapshot) {
	for n, l := range []layer{f.unstable, f.flight, f.dirty} {
		for k := l.from(off); k < len(l) && l[k].off < end; k++ {
			s[n] = append(s[n], l[k].part(max(off, l[k].off), min(end, l[k].End())))
		}
	}
	return s
}

// Overlay puts it over dst, which stands for the file from off.
func (s *Snapshot) Overlay(dst []byte, off int64) {
	for _, l := range s {
		l.overlay(dst, off)
	}
}

// Forget gives the snapshot's hold on buffers back.
func (f *File) Forget(s *Snapshot) {
	for _, l := range s {
		for _, e := range l {
			f.unref(e.buf)
		}
	}
}

// Dirty is the dirty extents in the order of their offsets. They are borrowed
// until the next event.
func (f *File) Dirty() []*Extent { return f.dirty }
