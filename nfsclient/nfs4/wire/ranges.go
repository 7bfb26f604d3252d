package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// rangeArgs is a range of a file.
type rangeArgs struct {
	Stateid        Stateid
	Offset, Length uint64
}

func (a *rangeArgs) append(w *xdr.Writer) {
	a.Stateid.append(w)
	w.Uint64(a.Offset)
	w.Uint64(a.Length)
}

func (a *rangeArgs) parse(r *xdr.Reader) {
	a.Stateid.parse(r)
	a.Offset, a.Length = r.Uint64(), r.Uint64()
}

// Allocate is ALLOCATE (RFC 7862 section 15.1).
type Allocate struct {
	noRes
	Stateid        Stateid
	Offset, Length uint64
}

func (*Allocate) Op() Op { return OpAllocate }

func (o *Allocate) AppendArgs(w *xdr.Writer) {
	(&rangeArgs{o.Stateid, o.Offset, o.Length}).append(w)
}

func (o *Allocate) ParseArgs(r *xdr.Reader) {
	var a rangeArgs
	a.parse(r)
	o.Stateid, o.Offset, o.Length = a.Stateid, a.Offset, a.Length
}

// Deallocate is DEALLOCATE (section 15.4).
type Deallocate struct {
	noRes
	Stateid        Stateid
	Offset, Length uint64
}

func (*Deallocate) Op() Op { return OpDeallocate }

func (o *Deallocate) AppendArgs(w *xdr.Writer) {
	(&rangeArgs{o.Stateid, o.Offset, o.Length}).append(w)
}

func (o *Deallocate) ParseArgs(r *xdr.Reader) {
	var a rangeArgs
	a.parse(r)
	o.Stateid, o.Offset, o.Length = a.Stateid, a.Offset, a.Length
}

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
