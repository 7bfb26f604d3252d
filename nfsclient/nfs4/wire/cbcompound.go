package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// CBCompound is the arguments and the results of CB_COMPOUND (RFC 8881 section 19.2).
type CBCompound struct {
	// Tag is echoed by the client.
	Tag   string
	Minor uint32
	// Ident is callback_ident, which means nothing in sessions.
	Ident uint32
	Ops   []CBOperation
	// Status is that of the compound and of the last operation that was answered, and
	// Done the number of these. The operations before the last were carried out.
	Status Status
	Done   int
}

// Outcome is the status of operation i; answered is false if it has none.
func (c *CBCompound) Outcome(i int) (st Status, answered bool) {
	return outcome(i, c.Done, c.Status)
}

// AppendArgs encodes CB_COMPOUND4args.
func (c *CBCompound) AppendArgs(w *xdr.Writer) {
	w.String(c.Tag)
	w.Uint32(c.Minor)
	w.Uint32(c.Ident)
	w.Uint32(uint32(len(c.Ops)))
	for _, o := range c.Ops {
		w.Uint32(uint32(o.Op()))
		o.AppendArgs(w)
	}
}

// ParseArgs decodes CB_COMPOUND4args into operations of its own making. The last of them is a
// CBUnknown if the request has an operation that is not known. A client looks at Minor
// first: with one that is not 1 or 2 there are no operations, as their numbers may mean anything.
func (c *CBCompound) ParseArgs(r *xdr.Reader) {
	*c = CBCompound{Tag: r.String(MaxTag), Minor: r.Uint32(), Ident: r.Uint32()}
	n := r.Count(MaxOps)
	if c.Minor < 1 || c.Minor > 2 {
		r.Fixed(r.Remaining() &^ 3)
		return
	}
	for range n {
		o := NewCB(CBOp(r.Uint32()), c.Minor)
		if r.Err() != nil {
			return
		}
		o.ParseArgs(r)
		c.Ops = append(c.Ops, o)
		if _, unknown := o.(*CBUnknown); unknown || r.Err() != nil {
			return
		}
	}
}

// AppendRes encodes CB_COMPOUND4res with the results of the first Done operations.
func (c *CBCompound) AppendRes(w *xdr.Writer) {
	appendResults(w, c.Status, c.Tag, c.Ops[:c.Done], OpCBIllegal)
}

// ParseRes decodes CB_COMPOUND4res into the operations that were asked. It refuses what
// Compound.ParseRes refuses.
func (c *CBCompound) ParseRes(r *xdr.Reader) {
	c.Status, c.Done = parseResults(r, c.Tag, c.Ops, OpCBIllegal)
}

// ReplyMax bounds CB_COMPOUND4res, in bytes.
func (c *CBCompound) ReplyMax() int {
	n := 4 + padded(len(c.Tag)) + 4
	for _, o := range c.Ops {
		n += o.ReplyMax()
	}
	return n
}
