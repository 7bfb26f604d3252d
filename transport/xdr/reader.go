package xdr

import (
	"encoding/binary"
	"fmt"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Error says what in a message was malformed and where, in bytes of the
// reduced stream.
type Error struct {
	Off int
	Why string
}

func (e *Error) Error() string { return fmt.Sprintf("malformed XDR at byte %d: %s", e.Off, e.Why) }

// Layout locates data that a transport has moved out of a message's stream, or padded.
// Offsets count from the start of the stream that the Reader was given.
type Layout interface {
	// Item locates a data item of n bytes that would begin at off: payload i, or -1
	// for data that the caller borrows. The Reader calls it once, before it reads
	// the item. If moved, the item is not in the stream: its bytes are data, or, if
	// data is nil, in the payload already.
	Item(i, off, n int) (data []byte, moved bool, err error)
	// Before is the number of bytes that stand in front of n bytes of counted
	// opaque data which would else begin at off.
	Before(off, n int) int
	// End returns an error if the Reader has not read every item that was moved.
	End() error
}

// Reader decodes one message. After the first malformed item every read
// returns zero and Err says what was wrong. Slices that it returns are
// borrowed from the message.
type Reader struct {
	buf    []byte
	off    int
	err    error
	recv   []mem.Vec
	layout Layout // nil: everything is in the stream
}

// Reset starts reading buf. Payload(i) fills recv[i].
func (r *Reader) Reset(buf []byte, recv []mem.Vec) { *r = Reader{buf: buf, recv: recv} }

// SetLayout gives a Reader that was just reset a Layout, which it borrows until the
// next Reset.
func (r *Reader) SetLayout(l Layout) { r.layout = l }

// Err is the first error, or nil.
func (r *Reader) Err() error { return r.err }

// Fail records an error found by the caller, at the present offset, unless one
// is recorded already.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = &Error{Off: r.off, Why: fmt.Sprintf(format, args...)}
	}
}

// Remaining is the number of bytes of the stream not read yet.
func (r *Reader) Remaining() int { return len(r.buf) - r.off }

// Offset is the number of bytes of the stream read so far.
func (r *Reader) Offset() int { return r.off }

// Since returns the bytes of the stream from an offset up to what is read next. They
// are borrowed.
func (r *Reader) Since(off int) []byte { return r.buf[off:r.off:r.off] }

// End records an error unless everything has been read: the stream, and all
// the items moved around it.
func (r *Reader) End() error {
	if r.Remaining() > 0 {
		r.Fail("%d bytes too many", r.Remaining())
	}
	if r.err == nil && r.layout != nil {
		if err := r.layout.End(); err != nil {
			r.Fail("%v", err)
		}
	}
	return r.err
}

func (r *Reader) take(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n > r.Remaining() {
		r.Fail("%d bytes needed, %d there", n, r.Remaining())
		return nil
	}
	b := r.buf[r.off : r.off+n : r.off+n]
	r.off += n
	return b
}

// Uint32 reads an unsigned int or enum.
func (r *Reader) Uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// Uint64 reads an unsigned hyper.
func (r *Reader) Uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Bool reads a boolean; anything but 0 and 1 is malformed.
func (r *Reader) Bool() bool {
	v := r.Uint32()
	if v > 1 {
		r.off -= 4
		r.Fail("boolean of value %d", v)
	}
	return v == 1 && r.err == nil
}

// Count reads the number of elements of a list, at most limit. Use it before
// allocating; an element's own bytes are checked when it is read.
func (r *Reader) Count(limit int) int {
	v := r.Uint32()
	if r.err == nil && uint64(v) > uint64(limit) {
		r.off -= 4
		r.Fail("length %d exceeds the bound %d", v, limit)
	}
	if r.err != nil {
		return 0
	}
	return int(v)
}

// Fixed reads n bytes of opaque data and their padding.
func (r *Reader) Fixed(n int) []byte {
	b := r.take(n + Pad(n))
	if b == nil {
		return nil
	}
	return b[:n:n]
}

// Opaque reads a length of at most limit and that many bytes.
func (r *Reader) Opaque(limit int) []byte {
	n := r.Count(limit)
	if r.err != nil {
		return nil
	}
	return r.counted(n)
}

// counted reads n bytes of opaque data whose length has just been read, and
// what stands in front of them.
func (r *Reader) counted(n int) []byte {
	if r.layout != nil && r.take(r.layout.Before(r.off, n)) == nil && r.err != nil {
		return nil
	}
	return r.Fixed(n)
}

// String reads a string of at most limit bytes.
func (r *Reader) String(limit int) string { return string(r.Opaque(limit)) }

// Payload reads a length, makes sure that so many bytes stand in recv[i], and
// returns it. Bytes found in the stream, or moved elsewhere, are copied. It is
// malformed when they exceed recv[i], or when the Layout says so.
func (r *Reader) Payload(i int) int {
	n := r.Count(r.recv[i].Len())
	b, inPlace := r.item(i, n)
	if r.err != nil {
		return 0
	}
	if !inPlace {
		r.recv[i].CopyIn(0, b)
	}
	return n
}

// Data reads opaque data of at most limit bytes that may have been moved out
// of the stream. The bytes are borrowed from where they are.
func (r *Reader) Data(limit int) []byte {
	b, _ := r.item(-1, r.Count(limit))
	return b
}

// item finds the n bytes, whose length has just been read, of payload i, or of no
// payload. inPlace: they stand in the payload already.
func (r *Reader) item(i, n int) (b []byte, inPlace bool) {
	if r.err != nil {
		return nil, false
	}
	if r.layout != nil {
		b, moved, err := r.layout.Item(i, r.off, n)
		if err != nil {
			r.Fail("%v", err)
			return nil, false
		}
		if moved {
			return b, b == nil
		}
	}
	return r.counted(n), false
}
