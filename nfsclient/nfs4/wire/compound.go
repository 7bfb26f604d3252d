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
	switch {
	case i >= c.Done:
		return 0, false
	case i == c.Done-1:
		return c.Status, true
	}
	return OK, true
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
	w.Uint32(uint32(c.Status))
	w.String(c.Tag)
	w.Uint32(uint32(c.Done))
	for i, o := range c.Ops[:c.Done] {
		st, _ := c.Outcome(i)
		if st == ErrOpIllegal {
			w.Uint32(uint32(OpIllegal))
		} else {
			w.Uint32(uint32(o.Op()))
		}
		w.Uint32(uint32(st))
		o.AppendRes(w, st)
	}
}

// ParseRes decodes COMPOUND4res into the operations that were asked. It is malformed
// when a result is not that of the operation asked, when there are more results than
// operations, when the statuses contradict each other, and when a result is larger than
// its ReplyMax.
func (c *Compound) ParseRes(r *xdr.Reader) {
	c.Status, c.Done = Status(r.Uint32()), 0
	r.Opaque(len(c.Tag))
	n := r.Count(len(c.Ops))
	if c.Status == OK && n != len(c.Ops) {
		r.Fail("%d results of %d operations in a compound that succeeded", n, len(c.Ops))
	}
	for i := 0; i < n && r.Err() == nil; i++ {
		o, want := c.Ops[i], OK
		if i == n-1 {
			want = c.Status
		}
		start := r.Offset()
		resop, st := Op(r.Uint32()), Status(r.Uint32())
		switch {
		case r.Err() != nil:
			return
		case resop != o.Op() && (resop != OpIllegal || st != ErrOpIllegal):
			r.Fail("result %d is of %v instead of %v", i, resop, o.Op())
			return
		case st != want:
			r.Fail("%v has status %d where %d is due", resop, st, want)
			return
		case st == ErrOpIllegal: // has no more results, whatever was asked
		default:
			o.ParseRes(r, st)
		}
		if size, limit := r.Offset()-start-bulkIn(o), o.ReplyMax(); r.Err() == nil && size > limit {
			r.Fail("results of %v have %d bytes, at most %d were asked for", resop, size, limit)
			return
		}
		c.Done = i + 1
	}
}

// bulkIn is how many bytes of an operation's results may be those of its Bulk.
func bulkIn(o Operation) int {
	switch o := o.(type) {
	case *Read:
		return o.Data.Len + xdr.Pad(o.Data.Len)
	case *ReadLink:
		return o.Target.Len + xdr.Pad(o.Target.Len)
	}
	return 0
}

// ReplyMax bounds COMPOUND4res, in bytes, without the data of a Bulk.
func (c *Compound) ReplyMax() int {
	n := 4 + padded(len(c.Tag)) + 4
	for _, o := range c.Ops {
		n += o.ReplyMax()
	}
	return n
}
