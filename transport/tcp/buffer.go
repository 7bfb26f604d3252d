package tcp

import (
	"math/bits"
	"sync"
)

// Received records are kept in buffers of 2^k bytes, from minBuffer on.
const (
	minClass  = 12
	maxClass  = 30
	minBuffer = 1 << minClass
)

// buffer is a pooled stretch of memory; b may be resliced by its holder.
type buffer struct {
	b     []byte
	class int
}

var buffers [maxClass + 1]sync.Pool

// getBuffer lends a buffer of length n; put gives it back.
func getBuffer(n int) *buffer {
	class := max(bits.Len(uint(max(n, 1)-1)), minClass)
	if class > maxClass {
		return &buffer{b: make([]byte, n)}
	}
	if v, ok := buffers[class].Get().(*buffer); ok {
		v.b = v.b[:n]
		return v
	}
	return &buffer{b: make([]byte, n, 1<<class), class: class}
}

func (b *buffer) put() {
	if b.class > 0 {
		buffers[b.class].Put(b)
	}
}

// grow returns a buffer of length n that begins with b's bytes; it takes b.
func (b *buffer) grow(n int) *buffer {
	if n <= cap(b.b) {
		b.b = b.b[:n]
		return b
	}
	g := getBuffer(n)
	copy(g.b, b.b)
	b.put()
	return g
}
