package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// appendRange and parseRange are the arguments of ALLOCATE and DEALLOCATE.
func appendRange(w *xdr.Writer, st *Stateid, off, n uint64) {
	st.append(w)
	w.Uint64(off)
	w.Uint64(n)
}

func parseRange(r *xdr.Reader, st *Stateid) (off, n uint64) {
	st.parse(r)
	return r.Uint64(), r.Uint64()
}

// Allocate is ALLOCATE (RFC 7862 section 15.1).
type Allocate struct {
	noRes
	Stateid        Stateid
	Offset, Length uint64
}

func (*Allocate) Op() Op { return OpAllocate }

func (o *Allocate) AppendArgs(w *xdr.Writer) { appendRange(w, &o.Stateid, o.Offset, o.Length) }
func (o *Allocate) ParseArgs(r *xdr.Reader)  { o.Offset, o.Length = parseRange(r, &o.Stateid) }

// Deallocate is DEALLOCATE (section 15.4).
type Deallocate struct {
	noRes
	Stateid        Stateid
	Offset, Length uint64
}

func (*Deallocate) Op() Op { return OpDeallocate }

func (o *Deallocate) AppendArgs(w *xdr.Writer) { appendRange(w, &o.Stateid, o.Offset, o.Length) }
func (o *Deallocate) ParseArgs(r *xdr.Reader)  { o.Offset, o.Length = parseRange(r, &o.Stateid) }

// Seek is SEEK (section 15.11): where the first data, or the first hole, begins at Offset
// or behind it.
type Seek struct {
	Stateid Stateid
	Offset  uint64
	Hole    bool
	// Results.
	EOF bool
	At  uint64
}

func (*Seek) Op() Op { return OpSeek }

func (o *Seek) AppendArgs(w *xdr.Writer) {
	o.Stateid.append(w)
	w.Uint64(o.Offset)
	w.Bool(o.Hole) // data_content4: 0 is data, 1 a hole
}

func (o *Seek) ParseArgs(r *xdr.Reader) {
	o.Stateid.parse(r)
	o.Offset, o.Hole = r.Uint64(), r.Bool()
}

func (o *Seek) AppendRes(w *xdr.Writer, st Status) {
	if st == OK {
		w.Bool(o.EOF)
		w.Uint64(o.At)
	}
}

func (o *Seek) ParseRes(r *xdr.Reader, st Status) {
	if st == OK {
		o.EOF, o.At = r.Bool(), r.Uint64()
	}
}

func (*Seek) ReplyMax() int { return sizeOp + 4 + 8 }
