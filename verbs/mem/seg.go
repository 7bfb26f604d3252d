package mem

import "fmt"

// Seg names Len bytes of an arena from Off on. The zero Seg is empty. A Seg
// owns nothing: a lease of the bytes must still be released.
type Seg struct {
	Arena *Arena
	Off   int
	Len   int
}

// Bytes is the memory that s names, with capacity cut to its length.
func (s Seg) Bytes() []byte {
	if s.Len == 0 {
		return nil
	}
	return s.Arena.b[s.Off : s.Off+s.Len : s.Off+s.Len]
}

// Slice is the n bytes of s from off. It panics when they are not inside s.
func (s Seg) Slice(off, n int) Seg {
	if off < 0 || n < 0 || off > s.Len || n > s.Len-off {
		panic(fmt.Sprintf("mem: slice [%d,+%d) of a segment of %d bytes", off, n, s.Len))
	}
	return Seg{Arena: s.Arena, Off: s.Off + off, Len: n}
}

// Vec is a run of segments taken as one string of bytes.
type Vec []Seg

// Len is the number of bytes in all segments.
func (v Vec) Len() int {
	n := 0
	for _, s := range v {
		n += s.Len
	}
	return n
}

// CopyIn copies b into v from byte off on and returns how many bytes fitted.
func (v Vec) CopyIn(off int, b []byte) int {
	done := 0
	for _, s := range v {
		if off >= s.Len {
			off -= s.Len
			continue
		}
		n := copy(s.Bytes()[off:], b[done:])
		off, done = 0, done+n
		if done == len(b) {
			break
		}
	}
	return done
}

// CopyOut copies bytes of v from byte off on into b and returns how many.
func (v Vec) CopyOut(off int, b []byte) int {
	done := 0
	for _, s := range v {
		if off >= s.Len {
			off -= s.Len
			continue
		}
		n := copy(b[done:], s.Bytes()[off:])
		off, done = 0, done+n
		if done == len(b) {
			break
		}
	}
	return done
}

// Slice appends the n bytes of v from off to dst as segments and returns it.
// It panics when v holds fewer bytes.
func (v Vec) Slice(dst Vec, off, n int) Vec {
	for _, s := range v {
		if n == 0 {
			return dst
		}
		if off >= s.Len {
			off -= s.Len
			continue
		}
		k := min(n, s.Len-off)
		dst = append(dst, s.Slice(off, k))
		off, n = 0, n-k
	}
	if n > 0 {
		panic(fmt.Sprintf("mem: slice runs %d bytes past the end of a vector", n))
	}
	return dst
}
