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

// Inline as an element of placed says that a payload travels in the stream.
const Inline = -1

// Chunk is a data item that was moved around the stream in a message received:
// its bytes, and its position in the unreduced stream.
type Chunk struct {
	Pos  int
	Data []byte
}

// Reader decodes one message. After the first malformed item every read
// returns zero and Err says what was wrong. Slices that it returns are
// borrowed from the message.
type Reader struct {
	buf     []byte
	off     int
	err     error
	recv    []mem.Vec
	placed  []int
	taken   uint64 // of the first 64 placed items, those that were read
	at      int    // where alone the placed item may stand, if not 0
	chunks  []Chunk
	skipped int // bytes of items, with padding, that the stream left out
	padding Padding
}

// Padding says how counted opaque data was aligned in a message (RFC 5666
// section 3.9): in front of data of Threshold bytes or more stand as many bytes
// as bring it to a multiple of Align, counted from Base bytes before the stream.
// No data needs none. The zero Padding is none.
type Padding struct{ Base, Align, Threshold int }

// before is the number of bytes in front of n bytes of data that would else
// stand at offset off of the stream.
func (p Padding) before(off, n int) int {
	if p.Align <= 1 || n == 0 || n < p.Threshold {
		return 0
	}
	if over := (p.Base + off) % p.Align; over > 0 {
		return p.Align - over
	}
	return 0
}

// Reset starts reading buf. Payload(i) fills recv[i]; when placed has an
// element i that is not Inline, that many bytes of recv[i] are in place
// already and are absent from the stream.
func (r *Reader) Reset(buf []byte, recv []mem.Vec, placed []int) {
	*r = Reader{buf: buf, recv: recv, placed: placed}
}

// ResetAt starts reading buf, out of which one item was moved: recv[0] holds
// placed bytes that stood at offset at. Payload is malformed anywhere else, so
// that a transport may guess where the item is and learn that it was wrong.
func (r *Reader) ResetAt(buf []byte, recv []mem.Vec, placed []int, at int) {
	*r = Reader{buf: buf, recv: recv, placed: placed, at: at}
}

// ResetChunks starts reading buf, out of which the given items, in ascending
// order of position, were moved. base is the position of buf's first byte.
func (r *Reader) ResetChunks(buf []byte, base int, chunks []Chunk) {
	*r = Reader{buf: buf, chunks: chunks, skipped: base}
}

// SetChunks tells a Reader just reset that items were moved into chunks, too,
// besides the placed ones.
func (r *Reader) SetChunks(chunks []Chunk) { r.chunks = chunks }

// SetPadding tells a Reader just reset that the stream is padded.
func (r *Reader) SetPadding(p Padding) { r.padding = p }

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

// End records an error unless everything has been read: the stream, and all
// the items moved around it.
func (r *Reader) End() error {
	if r.Remaining() > 0 {
		r.Fail("%d bytes too many", r.Remaining())
	}
	for i, n := range r.placed[:min(len(r.placed), 64)] {
		if n != Inline && r.taken>>i&1 == 0 {
			r.Fail("%d bytes were placed by RDMA that belong to no item", n)
		}
	}
	if len(r.chunks) > 0 {
		r.Fail("chunk at position %d belongs to no item", r.chunks[0].Pos)
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
// what stands in front of them as padding.
func (r *Reader) counted(n int) []byte {
	if p := r.padding.before(r.off, n); p > 0 {
		if r.take(p) == nil {
			return nil
		}
		r.skipped -= p // it belongs to no item
	}
	return r.Fixed(n)
}

// String reads a string of at most limit bytes.
func (r *Reader) String(limit int) string { return string(r.Opaque(limit)) }

// Payload reads a length, makes sure that so many bytes stand in recv[i], and
// returns it. Bytes found in the stream, or moved out of it as a chunk, are
// copied; a transport that placed them already has said so to Reset. It is
// malformed when they exceed recv[i], or when the number placed is neither the
// length nor the length with padding.
func (r *Reader) Payload(i int) int {
	n := r.Count(r.recv[i].Len())
	if r.err != nil {
		return 0
	}
	if r.at > 0 && r.off != r.at {
		r.Fail("item that was moved out from byte %d", r.at)
		return 0
	}
	if i < len(r.placed) && r.placed[i] != Inline {
		if p := r.placed[i]; p != n && p != n+Pad(n) {
			r.Fail("item of %d bytes, but %d were placed by RDMA", n, p)
			return 0
		}
		r.taken |= 1 << i
		r.skipped += n + Pad(n)
		return n
	}
	b := r.data(n)
	if r.err != nil {
		return 0
	}
	r.recv[i].CopyIn(0, b)
	return n
}

// Data reads opaque data of at most limit bytes that may have been moved out
// of the stream as a chunk. The bytes are borrowed from the stream or chunk.
func (r *Reader) Data(limit int) []byte {
	n := r.Count(limit)
	if r.err != nil {
		return nil
	}
	return r.data(n)
}

// data reads n bytes, whose length has just been read, from where they are.
func (r *Reader) data(n int) []byte {
	if len(r.chunks) == 0 || r.chunks[0].Pos != r.off+r.skipped {
		return r.counted(n)
	}
	d := r.chunks[0].Data
	if len(d) != n && len(d) != n+Pad(n) {
		r.Fail("item of %d bytes, but its chunk has %d", n, len(d))
		return nil
	}
	r.chunks = r.chunks[1:]
	r.skipped += n + Pad(n)
	return d[:n:n]
}
