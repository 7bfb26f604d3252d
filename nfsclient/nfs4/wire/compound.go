package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// Compound is the arguments and the results of COMPOUND (RFC 8881 section 16.2).
type Compound struct {
	// Tag is echoed by the server.
	Tag   string
	Minor uint32
	Ops   []Operation
	// Status is that of the compound and of the last operation that was answered, and
	// Done the number of these. The operations before the last were carried out.
	Status Status
	Done   int
}

// Outcome is the status of operation i; answered is false if it has none.
func (c *Compound) Outcome(i int) (st Status, answered bool) {
	return outcome(i, c.Done, c.Status)
}

// AppendArgs encodes COMPOUND4args.
func (c *Compound) AppendArgs(w *xdr.Writer) {
	w.String(c.Tag)
	w.Uint32(c.Minor)
	w.Uint32(uint32(len(c.Ops)))
	for _, o := range c.Ops {
		w.Uint32(uint32(o.Op()))
		o.AppendArgs(w)
	}
}

// ParseArgs decodes COMPOUND4args into operations of its own making. The last of them is an
// Unknown if the request has an operation that is not known. A server looks at Minor
// first: with one above 2 there are no operations, as their numbers may mean anything.
func (c *Compound) ParseArgs(r *xdr.Reader) {
	*c = Compound{Tag: r.String(MaxTag), Minor: r.Uint32(), Ops: c.Ops[:0]}
	n := r.Count(MaxOps)
	if c.Minor > 2 {
		r.Fixed(r.Remaining() &^ 3)
		return
	}
	for i := 0; i < n && r.Err() == nil; i++ {
		o := New(Op(r.Uint32()), c.Minor)
		if r.Err() != nil {
			return
		}
		o.ParseArgs(r)
		c.Ops = append(c.Ops, o)
		if _, unknown := o.(*Unknown); unknown {
			return
		}
	}
}

// AppendRes encodes COMPOUND4res with the results of the first Done operations.
func (c *Compound) AppendRes(w *xdr.Writer) {
	appendResults(w, c.Status, c.Tag, c.Ops[:c.Done], OpIllegal)
}

// ParseRes decodes COMPOUND4res into the operations that were asked; parseResults says what is malformed.
func (c *Compound) ParseRes(r *xdr.Reader) {
	c.Status, c.Done = parseResults(r, c.Tag, c.Ops, OpIllegal)
}

// ReplyMax bounds COMPOUND4res, in bytes, without the data of a Bulk.
func (c *Compound) ReplyMax() int {
	n := 4 + padded(len(c.Tag)) + 4
	for _, o := range c.Ops {
		n += o.ReplyMax()
	}
	return n
}
