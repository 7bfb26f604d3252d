package wire

import (
	"math/bits"

	"github.com/rdmafs/rdmafs/transport/xdr"
)

// BitmapWords is how many words of a bitmap are kept: all attributes defined so far
// lie in them.
const BitmapWords = 3

// Bitmap is bitmap4, a set of numbers: of attributes, or of operations. It is encoded
// without the words of zeros at its end.
type Bitmap [BitmapWords]uint32

// BitmapOf is the set of some attributes.
func BitmapOf(attrs ...AttrNum) (b Bitmap) {
	for _, n := range attrs {
		b.Add(n)
	}
	return b
}

// Add puts n into the set.
func (b *Bitmap) Add(n AttrNum) { b[n/32] |= 1 << (n % 32) }

// Remove takes n out of the set.
func (b *Bitmap) Remove(n AttrNum) { b[n/32] &^= 1 << (n % 32) }

// Has reports whether n is in the set.
func (b *Bitmap) Has(n AttrNum) bool { return n/32 < BitmapWords && b[n/32]&(1<<(n%32)) != 0 }

// And is what is in both sets, Or what is in one of them, Without what is only in the first.
func (b Bitmap) And(c Bitmap) Bitmap     { return Bitmap{b[0] & c[0], b[1] & c[1], b[2] & c[2]} }
func (b Bitmap) Or(c Bitmap) Bitmap      { return Bitmap{b[0] | c[0], b[1] | c[1], b[2] | c[2]} }
func (b Bitmap) Without(c Bitmap) Bitmap { return Bitmap{b[0] &^ c[0], b[1] &^ c[1], b[2] &^ c[2]} }

// Empty reports whether nothing is in the set.
func (b Bitmap) Empty() bool { return b == Bitmap{} }

// words is how many words are encoded.
func (b *Bitmap) words() int {
	n := BitmapWords
	for n > 0 && b[n-1] == 0 {
		n--
	}
	return n
}

func (b *Bitmap) append(w *xdr.Writer) {
	n := b.words()
	w.Uint32(uint32(n))
	for _, v := range b[:n] {
		w.Uint32(v)
	}
}

// parse reports whether something was in words that are not kept.
func (b *Bitmap) parse(r *xdr.Reader) (lost bool) {
	*b = Bitmap{}
	n := r.Count(MaxBitmap)
	for i := range n {
		if v := r.Uint32(); i < BitmapWords {
			b[i] = v
		} else if v != 0 {
			lost = true
		}
	}
	return lost
}

// each calls f with the numbers in the set, in order, until it returns false.
func (b *Bitmap) each(f func(AttrNum) bool) {
	for i, v := range b {
		for ; v != 0; v &= v - 1 {
			if !f(AttrNum(32*i + bits.TrailingZeros32(v))) {
				return
			}
		}
	}
}
