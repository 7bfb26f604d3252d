package wire

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/rdmafs/rdmafs/transport/xdr"
)

// PropID is rpcrdma2_propid (the draft, section 6.2).
type PropID uint32

const (
	// PropReceiveSize is the least size of posted receives: a uint32, by
	// default DefaultInline2.
	PropReceiveSize PropID = 1
	// PropBackward is a BackwardSupport, by default BackwardInline.
	PropBackward PropID = 2
)

// BackwardSupport is rpcrdma2_bkreqsup: what of the backward direction is
// received (the draft, section 6.2.2).
type BackwardSupport uint32

const (
	BackwardNone    BackwardSupport = 0
	BackwardInline  BackwardSupport = 1 // messages without chunks
	BackwardGeneral BackwardSupport = 2
)

func (b BackwardSupport) String() string {
	switch b {
	case BackwardNone:
		return "none"
	case BackwardInline:
		return "inline"
	case BackwardGeneral:
		return "general"
	}
	return fmt.Sprintf("backward support %d", uint32(b))
}

// MaxProperties bounds the properties of one set. It is far above what there
// are, and lets the answer to a request for all of them fit any receive.
const MaxProperties = 1024

// Property is rpcrdma2_propval. Data of no length stands for the default.
type Property struct {
	ID   PropID
	Data []byte
}

// PropSet is rpcrdma2_propset. It stays encoded, so that what a peer sends
// costs no memory. A parsed one is borrowed from the message.
type PropSet struct {
	n   int
	raw []byte
}

// Len is the number of properties in s.
func (s *PropSet) Len() int { return s.n }

// Add appends a property.
func (s *PropSet) Add(id PropID, data []byte) {
	s.raw = binary.BigEndian.AppendUint32(s.raw, uint32(id))
	s.raw = binary.BigEndian.AppendUint32(s.raw, uint32(len(data)))
	s.raw = append(s.raw, data...)
	s.raw = append(s.raw, make([]byte, xdr.Pad(len(data)))...)
	s.n++
}

// AddUint32 appends a property whose value is a uint32 or an enum.
func (s *PropSet) AddUint32(id PropID, v uint32) {
	s.Add(id, binary.BigEndian.AppendUint32(nil, v))
}

// All yields the properties with their places in s.
func (s *PropSet) All() iter.Seq2[int, Property] {
	return func(yield func(int, Property) bool) {
		var r xdr.Reader
		r.Reset(s.raw, nil)
		for i := range s.n {
			if !yield(i, Property{PropID(r.Uint32()), r.Opaque(r.Remaining())}) {
				return
			}
		}
	}
}

func (s *PropSet) append(w *xdr.Writer) {
	w.Uint32(uint32(s.n))
	w.Fixed(s.raw)
}

// parse checks the form of all properties, and the values of those that are
// known (the draft, section 6.1.1). Unknown ones are left to be ignored.
func (s *PropSet) parse(r *xdr.Reader) {
	*s = PropSet{}
	n := r.Count(MaxProperties)
	all, start := *r, r.Offset()
	for i := 0; i < n && r.Err() == nil; i++ {
		p := Property{PropID(r.Uint32()), r.Opaque(r.Remaining())}
		if why := p.check(); why != "" {
			r.Fail("%s", why)
		}
	}
	if r.Err() == nil {
		s.n, s.raw = n, all.Fixed(r.Offset()-start)
	}
}

// check returns what is wrong with the value of a known property, or nothing.
func (p *Property) check() string {
	switch p.ID {
	case PropReceiveSize, PropBackward:
		v, ok := p.Uint32()
		switch {
		case !ok:
			return fmt.Sprintf("property %d of %d bytes", p.ID, len(p.Data))
		case p.ID == PropBackward && v > uint32(BackwardGeneral):
			return fmt.Sprintf("backward request support %d", v)
		}
	}
	return ""
}

// Uint32 is the value of a known property.
func (p *Property) Uint32() (v uint32, ok bool) {
	switch {
	case len(p.Data) == 4:
		return binary.BigEndian.Uint32(p.Data), true
	case len(p.Data) > 0:
		return 0, false
	case p.ID == PropReceiveSize:
		return DefaultInline2, true
	}
	return uint32(BackwardInline), true
}

// PropSubset is rpcrdma2_propsubset, encoded: bit n mod 32 of word n div 32
// stands for the property at place n of a PropSet.
type PropSubset []byte

// Has reports whether place n is in s. Words that are not there are zero.
func (s PropSubset) Has(n int) bool {
	at := n / 32 * 4
	return at < len(s) && binary.BigEndian.Uint32(s[at:])>>(n%32)&1 != 0
}

// Set adds place n to s.
func (s *PropSubset) Set(n int) {
	at := n / 32 * 4
	for len(*s) <= at {
		*s = append(*s, 0, 0, 0, 0)
	}
	b := (*s)[at:]
	binary.BigEndian.PutUint32(b, binary.BigEndian.Uint32(b)|1<<(n%32))
}

func (s PropSubset) append(w *xdr.Writer) {
	w.Uint32(uint32(len(s) / 4))
	w.Fixed(s)
}

func parsePropSubset(r *xdr.Reader) PropSubset {
	n := r.Count(MaxProperties / 32)
	b := r.Fixed(4 * n)
	if len(b) == 0 {
		return nil
	}
	return PropSubset(b)
}
