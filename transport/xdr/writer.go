package xdr

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Mark says where a payload stands in the stream.
type Mark struct {
	// Off is the offset in Bytes at which the payload's first byte, if it
	// travels inline, and its padding are to be inserted.
	Off int
	// Pos is the position of that byte in the unreduced stream.
	Pos int
	// Index is the payload's index, Len its length without padding.
	Index, Len int
}

// Writer encodes one message. The zero Writer has no payloads and allocates
// as it grows.
type Writer struct {
	buf      []byte
	payloads []mem.Vec
	marks    []Mark
	extra    int // bytes of payloads and their roundup so far
	// before is the number of bytes in front of n bytes of counted data that would
	// else begin at off of the unreduced stream; nil: none.
	before func(off, n int) int
}

// Reset starts a message that is appended to buf[:0] and may hold payloads.
// The writer borrows both until the next Reset; it moves to a new buffer when
// buf is too small.
func (w *Writer) Reset(buf []byte, payloads []mem.Vec) {
	*w = Writer{buf: buf[:0], payloads: payloads, marks: w.marks[:0]}
}

// SetBefore makes a Writer just reset put before(off, n) zero bytes in front of n bytes
// of counted opaque data that would else begin at off. Payloads must then travel in
// the stream.
func (w *Writer) SetBefore(before func(off, n int) int) { w.before = before }

// align appends what goes in front of n bytes of counted data.
func (w *Writer) align(n int) {
	if w.before == nil {
		return
	}
	for p := w.before(w.Len(), n); p > 0; p-- {
		w.buf = append(w.buf, 0)
	}
}

// Bytes is the stream without payloads and their padding. It is valid until
// the next write.
func (w *Writer) Bytes() []byte { return w.buf }

// Marks lists the payloads in the order of the stream.
func (w *Writer) Marks() []Mark { return w.marks }

// Len is the length of the unreduced stream, in bytes.
func (w *Writer) Len() int { return len(w.buf) + w.extra }

// Uint32 appends an unsigned int or enum.
func (w *Writer) Uint32(v uint32) { w.buf = binary.BigEndian.AppendUint32(w.buf, v) }

// Uint64 appends an unsigned hyper.
func (w *Writer) Uint64(v uint64) { w.buf = binary.BigEndian.AppendUint64(w.buf, v) }

// Bool appends a boolean.
func (w *Writer) Bool(v bool) {
	if v {
		w.Uint32(1)
	} else {
		w.Uint32(0)
	}
}

// Fixed appends opaque data of a length known to both sides, and padding.
func (w *Writer) Fixed(b []byte) {
	w.buf = append(w.buf, b...)
	w.pad(len(b))
}

// Opaque appends a length, that many bytes, and padding.
func (w *Writer) Opaque(b []byte) {
	w.Uint32(uint32(len(b)))
	w.align(len(b))
	w.Fixed(b)
}

// String appends a string as Opaque does.
func (w *Writer) String(s string) {
	w.Uint32(uint32(len(s)))
	w.align(len(s))
	w.buf = append(w.buf, s...)
	w.pad(len(s))
}

// Payload appends the length of payload i and marks that its bytes follow.
// Each payload stands at most once in a message, and not to be one that Reset
// was given is a programming error.
func (w *Writer) Payload(i int) {
	for _, m := range w.marks {
		if m.Index == i {
			panic(fmt.Sprintf("xdr: payload %d marked twice", i))
		}
	}
	n := w.payloads[i].Len()
	w.Uint32(uint32(n))
	w.align(n)
	w.marks = append(w.marks, Mark{Off: len(w.buf), Pos: w.Len(), Index: i, Len: n})
	w.extra += n + Pad(n)
}

// AppendFlat appends to dst what stands in the unreduced stream from the offset off of
// Bytes on: payloads and their padding are copied to their places. The payloads marked
// before off are left out.
func (w *Writer) AppendFlat(dst []byte, off int) []byte {
	at := off
	for _, m := range w.marks {
		if m.Off < off {
			continue
		}
		dst = append(dst, w.buf[at:m.Off]...)
		at = m.Off
		n := len(dst)
		dst = slices.Grow(dst, m.Len+4)[:n+m.Len]
		w.payloads[m.Index].CopyOut(0, dst[n:])
		dst = append(dst, zeros[:Pad(m.Len)]...)
	}
	return append(dst, w.buf[at:]...)
}

// SetUint32 overwrites the word at an offset of Bytes, for lengths and counts
// known only afterwards.
func (w *Writer) SetUint32(off int, v uint32) { binary.BigEndian.PutUint32(w.buf[off:off+4], v) }

// Truncate cuts the stream back to n bytes of Bytes and drops the marks after.
func (w *Writer) Truncate(n int) {
	w.buf = w.buf[:n]
	for len(w.marks) > 0 && w.marks[len(w.marks)-1].Off > n {
		m := w.marks[len(w.marks)-1]
		w.extra -= m.Len + Pad(m.Len)
		w.marks = w.marks[:len(w.marks)-1]
	}
}

func (w *Writer) pad(n int) { w.buf = append(w.buf, zeros[:Pad(n)]...) }

var zeros [4]byte

// Pad is the number of zero bytes that follow n bytes of opaque data.
func Pad(n int) int { return -n & 3 }
