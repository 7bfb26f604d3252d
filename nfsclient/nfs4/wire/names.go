package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// changeRes is results that are the change of a directory.
type changeRes struct {
	// Change is that of the directory.
	Change ChangeInfo
}

func (c *changeRes) AppendRes(w *xdr.Writer, st Status) {
	if st == OK {
		c.Change.append(w)
	}
}

func (c *changeRes) ParseRes(r *xdr.Reader, st Status) {
	if st == OK {
		c.Change.parse(r)
	}
}

func (*changeRes) ReplyMax() int { return sizeOp + sizeChange }

// Remove is REMOVE (RFC 8881 section 18.25).
type Remove struct {
	Name string
	// Results.
	changeRes
}

func (*Remove) Op() Op                     { return OpRemove }
func (o *Remove) AppendArgs(w *xdr.Writer) { w.String(o.Name) }
func (o *Remove) ParseArgs(r *xdr.Reader)  { parseString(r, &o.Name, MaxName) }

// Link is LINK (section 18.9): the saved filehandle gets a name in the current one.
type Link struct {
	Name string
	// Results.
	changeRes
}

func (*Link) Op() Op                     { return OpLink }
func (o *Link) AppendArgs(w *xdr.Writer) { w.String(o.Name) }
func (o *Link) ParseArgs(r *xdr.Reader)  { parseString(r, &o.Name, MaxName) }

// Rename is RENAME (section 18.26), from the saved filehandle to the current one.
type Rename struct {
	From, To string
	// Results.
	FromDir, ToDir ChangeInfo
}

func (*Rename) Op() Op { return OpRename }

func (o *Rename) AppendArgs(w *xdr.Writer) {
	w.String(o.From)
	w.String(o.To)
}

func (o *Rename) ParseArgs(r *xdr.Reader) {
	parseString(r, &o.From, MaxName)
	parseString(r, &o.To, MaxName)
}

func (o *Rename) AppendRes(w *xdr.Writer, st Status) {
	if st == OK {
		o.FromDir.append(w)
		o.ToDir.append(w)
	}
}

func (o *Rename) ParseRes(r *xdr.Reader, st Status) {
	if st == OK {
		o.FromDir.parse(r)
		o.ToDir.parse(r)
	}
}

func (*Rename) ReplyMax() int { return sizeOp + 2*sizeChange }
