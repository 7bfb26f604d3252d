package torture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// unit is the size in bytes of what the model follows.
const unit = 16

// A written unit holds a hash of everything that follows, the number of its
// write, and its place in the file.

func mix(file, place, write uint32) uint64 {
	x := uint64(file)<<32 | uint64(place)
	x ^= uint64(write) * 0x9e3779b97f4a7c15
	for range 2 {
		x ^= x >> 31
		x *= 0xbf58476d1ce4e5b9
	}
	return x ^ x>>29 | 1
}

// fill makes b, which begins at off, the content of a write.
func fill(b []byte, file uint32, off int64, write uint32) {
	for i := 0; i < len(b); i += unit {
		place := uint32((off + int64(i)) / unit)
		binary.LittleEndian.PutUint64(b[i:], mix(file, place, write))
		binary.LittleEndian.PutUint32(b[i+8:], write)
		binary.LittleEndian.PutUint32(b[i+12:], place)
	}
}

// written is the number of the write that a unit comes from, 0 when it is a hole.
func written(b []byte, file, place uint32) (uint32, error) {
	hash, write, at := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
	if hash == 0 && write == 0 && at == 0 {
		return 0, nil
	}
	if hash != mix(file, place, write) || at != place {
		return 0, fmt.Errorf("bytes that nobody wrote there: % x", b[:unit])
	}
	return write, nil
}

// file is what a file may contain.
type file struct {
	id uint32
	// Of each unit: the write that was last acknowledged, and the last one.
	acked, last []uint32
	// doubt marks units that were written, and not acknowledged before an error.
	doubt []bool
	// low is where the part begins that this model is about, in bytes, and others
	// says that the file goes on behind it.
	low    int64
	others bool
}

// write records that [off, off+n) is about to be written.
func (f *file) write(off, n int64, number uint32) {
	from, to := int(off/unit), int((off+n)/unit)
	if more := to - len(f.last); more > 0 {
		f.acked = append(f.acked, make([]uint32, more)...)
		f.last = append(f.last, make([]uint32, more)...)
		f.doubt = append(f.doubt, make([]bool, more)...)
	}
	for i := from; i < to; i++ {
		f.last[i], f.doubt[i] = number, false
	}
}

// acknowledge records that all writes are acknowledged as stable.
func (f *file) acknowledge() {
	for i := range f.last {
		if !f.doubt[i] {
			f.acked[i] = f.last[i]
		}
	}
}

// fail records that an error was reported.
func (f *file) fail() {
	for i := range f.last {
		if f.acked[i] != f.last[i] {
			f.doubt[i] = true
		}
	}
}

// errOlder: not the last write to a place is there, but an earlier one.
var errOlder = errors.New("older than it must be")

// read checks what a reader of a file in use sees at off: of each unit the last
// write.
func (f *file) read(b []byte, off int64) (lost int, err error) {
	return f.check(b, off, func(i int) uint32 {
		if f.doubt[i] {
			return f.acked[i]
		}
		return f.last[i]
	})
}

// checkFinal checks the whole content of a file that is not in use any more. lost
// counts bytes that were acknowledged and are not there.
func (f *file) checkFinal(b []byte) (lost int, err error) {
	whole := b
	if f.others {
		b = b[:min(len(b), len(f.last)*unit)]
	}
	b = b[min(f.low, int64(len(b))):]
	lost, err = f.check(b, f.low, func(i int) uint32 { return f.acked[i] })
	b = whole
	end := len(f.acked)
	for end > 0 && f.acked[end-1] == 0 {
		end--
	}
	if short := end*unit - len(b); short > 0 {
		lost += short
		if err == nil {
			err = fmt.Errorf("%d bytes, and %d were acknowledged", len(b), end*unit)
		}
	}
	return lost, err
}

func (f *file) check(b []byte, off int64, least func(int) uint32) (lost int, first error) {
	say := func(i int, format string, args ...any) {
		if err := fmt.Errorf(format, args...); first == nil || errors.Is(first, errOlder) && !errors.Is(err, errOlder) {
			first = fmt.Errorf("at %d: %w", i*unit, err)
		}
	}
	if len(b)%unit != 0 {
		// An incomplete last unit is allowed if it was not acknowledged.
		tail := len(b) % unit
		if i := int(off/unit) + len(b)/unit; i < len(f.acked) && f.acked[i] != 0 {
			lost += unit - tail
			say(i, "only %d bytes of an acknowledged unit", tail)
		}
		b = b[:len(b)-tail]
	}
	for k := 0; k < len(b); k += unit {
		i := int(off/unit) + k/unit
		if i >= len(f.last) {
			say(i, "more than was ever written")
			break
		}
		got, err := written(b[k:k+unit], f.id, uint32(i))
		switch low := least(i); {
		case err != nil && f.doubt[i] && f.displaced(b[k:k+unit]):
			// What followed a write that failed may have taken its place.
		case err != nil:
			lost += unit
			say(i, "%v", err)
		case got < low:
			lost += unit
			say(i, "write %d is there, and %d was to be (last %d): %w", got, low, f.last[i], errOlder)
		case got > f.last[i]:
			lost += unit
			say(i, "write %d is there, and the last was %d", got, f.last[i])
		}
	}
	return lost, first
}

// displaced reports whether a unit is of this file, but of another place.
func (f *file) displaced(b []byte) bool {
	_, err := written(b, f.id, binary.LittleEndian.Uint32(b[12:]))
	return err == nil
}

// name is what a directory entry may be: any of the states.
type name struct {
	states []string
}

// absent is the state of a name that is not there.
const absent = "-"

func (n *name) may(state string) bool { return slices.Contains(n.states, state) }

// names is what a worker's directory may contain.
type names struct {
	all map[string]*name
	// top is how its directory's name begins.
	top string
	// pending are calls that began and did not end well: each is carried out as a
	// whole or not at all.
	pending []change
}

// change is what a call does to names.
type change map[string][2][]string // before, after

func (s *names) of(path string) *name {
	if s.all == nil {
		s.all = map[string]*name{}
	}
	n := s.all[path]
	if n == nil {
		n = &name{states: []string{absent}}
		s.all[path] = n
	}
	return n
}

// begin records a call that is about to make names be one of states.
func (s *names) begin(to map[string][]string) {
	c := change{}
	for path, after := range to {
		n := s.of(path)
		c[path] = [2][]string{n.states, after}
		n.states = append(slices.Clone(n.states), after...)
	}
	s.pending = append(s.pending, c)
}

// end records how the last call ended: done, or unknown.
func (s *names) end(done bool) {
	if !done {
		return
	}
	k := len(s.pending) - 1
	for path, x := range s.pending[k] {
		after := x[1]
		s.of(path).states = after[len(after)-1:]
	}
	s.pending = s.pending[:k]
}

// check compares what is there, by path, with what may be.
func (s *names) check(there map[string]string) (lost int, all []error) {
	see := func(path string) string {
		if x, ok := there[path]; ok {
			return x
		}
		return absent
	}
	for path, n := range s.all {
		if !n.may(see(path)) {
			lost++
			all = append(all, fmt.Errorf("%s is %q, and may be %q", path, see(path), n.states))
		}
	}
	for path, x := range there {
		if s.all[path] == nil {
			all = append(all, fmt.Errorf("%s is %q, and nobody made it", path, x))
		}
	}
	for _, c := range s.pending {
		before, after := true, true
		for path, x := range c {
			before = before && slices.Contains(x[0], see(path))
			after = after && slices.Contains(x[1], see(path))
		}
		if !before && !after {
			lost++
			all = append(all, fmt.Errorf("half a change of %v is there", c))
		}
	}
	return lost, all
}
