package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// GetAttr is GETATTR (RFC 8881 section 18.7).
type GetAttr struct {
	Want Bitmap
	// Results.
	Attrs Attrs
}

func (*GetAttr) Op() Op                     { return OpGetAttr }
func (o *GetAttr) AppendArgs(w *xdr.Writer) { o.Want.append(w) }
func (o *GetAttr) ParseArgs(r *xdr.Reader)  { o.Want.parse(r) }

func (o *GetAttr) AppendRes(w *xdr.Writer, st Status) {
	if st == OK {
		o.Attrs.append(w)
	}
}

func (o *GetAttr) ParseRes(r *xdr.Reader, st Status) {
	if st == OK {
		o.Attrs.parse(r)
	}
}

func (o *GetAttr) ReplyMax() int { return sizeOp + attrsMax(o.Want) }

// SetAttr is SETATTR (section 18.30).
type SetAttr struct {
	Stateid Stateid
	Attrs   Attrs
	// Done are the attributes that were set; it comes with every status.
	Done Bitmap
}

func (*SetAttr) Op() Op { return OpSetAttr }

func (o *SetAttr) AppendArgs(w *xdr.Writer) {
	o.Stateid.append(w)
	o.Attrs.append(w)
}

func (o *SetAttr) ParseArgs(r *xdr.Reader) {
	o.Stateid.parse(r)
	o.Attrs.parse(r)
}

func (o *SetAttr) AppendRes(w *xdr.Writer, _ Status) { o.Done.append(w) }
func (o *SetAttr) ParseRes(r *xdr.Reader, _ Status)  { o.Done.parse(r) }
func (*SetAttr) ReplyMax() int                       { return sizeOp + sizeBitmap }

// Rights of ACCESS beyond those of nfsclient.AccessMask (RFC 8276 section 8.6).
const (
	AccessXattrRead  = 0x040
	AccessXattrWrite = 0x080
	AccessXattrList  = 0x100
)

// Access is ACCESS (section 18.1).
type Access struct {
	Want uint32
	// Results: the rights that the server could tell about, and those granted.
	Supported uint32
	Granted   uint32
}

func (*Access) Op() Op                     { return OpAccess }
func (o *Access) AppendArgs(w *xdr.Writer) { w.Uint32(o.Want) }
func (o *Access) ParseArgs(r *xdr.Reader)  { o.Want = r.Uint32() }

func (o *Access) AppendRes(w *xdr.Writer, st Status) {
	if st == OK {
		w.Uint32(o.Supported)
		w.Uint32(o.Granted)
	}
}

func (o *Access) ParseRes(r *xdr.Reader, st Status) {
	if st == OK {
		o.Supported, o.Granted = r.Uint32(), r.Uint32()
	}
}

func (*Access) ReplyMax() int { return sizeOp + 4 + 4 }

// ReadLink is READLINK (section 18.24). Target may be a payload.
type ReadLink struct {
	noArgs
	// Results.
	Target Bulk
}

func (*ReadLink) Op() Op { return OpReadLink }

func (o *ReadLink) AppendRes(w *xdr.Writer, st Status) {
	if st == OK {
		o.Target.Append(w)
	}
}

func (o *ReadLink) ParseRes(r *xdr.Reader, st Status) {
	o.Target.Len = 0
	if st == OK {
		o.Target.Parse(r, MaxPath)
	}
}

func (*ReadLink) ReplyMax() int { return sizeOp + 4 }
