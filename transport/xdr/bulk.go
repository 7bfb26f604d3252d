package xdr

// Bulk is a data item that may travel beside the stream, such as the data of a READ
// (RFC 8267). A Bulk made by Marked stands in a payload of the Writer or Reader at
// hand; any other in Data.
type Bulk struct {
	// Data is what to encode, or, after Parse, what came, in the stream or as a
	// chunk around it, borrowed.
	Data []byte
	// Len is the item's length after Parse.
	Len int

	marked bool
	index  int
}

// Marked is a Bulk that stands in payload i.
func Marked(i int) Bulk { return Bulk{marked: true, index: i} }

// Inline is a Bulk that stands in b, which it borrows.
func Inline(b []byte) Bulk { return Bulk{Data: b, Len: len(b)} }

// Append encodes the item.
func (b *Bulk) Append(w *Writer) {
	if b.marked {
		w.Payload(b.index)
	} else {
		w.Opaque(b.Data)
	}
}

// Parse reads the item. limit bounds one that is not marked.
func (b *Bulk) Parse(r *Reader, limit int) {
	if b.marked {
		b.Len = r.Payload(b.index)
		return
	}
	b.Data = r.Data(limit)
	b.Len = len(b.Data)
}
