package wire

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// GetXattr is GETXATTR (RFC 8276 section 8.4.1). Names are without "user.".
type GetXattr struct {
	Name string
	// Limit is the largest value to take, in bytes, at most MaxXattr; 0 stands for
	// MaxXattr. It is not part of the message: a larger value makes the reply malformed.
	Limit int
	// Results.
	Value []byte
}

func (*GetXattr) Op() Op                     { return OpGetXattr }
func (o *GetXattr) AppendArgs(w *xdr.Writer) { w.String(o.Name) }
func (o *GetXattr) ParseArgs(r *xdr.Reader)  { parseString(r, &o.Name, MaxName) }

func (o *GetXattr) AppendRes(w *xdr.Writer, st Status) {
	if st == OK {
		w.Opaque(o.Value)
	}
}

func (o *GetXattr) ParseRes(r *xdr.Reader, st Status) {
	if st == OK {
		parseBytes(r, &o.Value, o.limit())
	}
}

func (o *GetXattr) limit() int {
	if o.Limit <= 0 {
		return MaxXattr
	}
	return min(o.Limit, MaxXattr)
}

func (o *GetXattr) ReplyMax() int { return sizeOp + padded(o.limit()) }

// SetXattr is SETXATTR (section 8.4.2). Results are the change of the file.
type SetXattr struct {
	How   nfsclient.SetXattr
	Name  string
	Value []byte
	// Results.
	changeRes
}

func (*SetXattr) Op() Op { return OpSetXattr }

func (o *SetXattr) AppendArgs(w *xdr.Writer) {
	w.Uint32(uint32(o.How))
	w.String(o.Name)
	w.Opaque(o.Value)
}

func (o *SetXattr) ParseArgs(r *xdr.Reader) {
	o.How = nfsclient.SetXattr(parseEnum(r, "setxattr_option4", 0, uint32(nfsclient.XattrReplace)))
	parseString(r, &o.Name, MaxName)
	parseBytes(r, &o.Value, MaxXattr)
}

// listXattrsSlack is what results of LISTXATTRS may have beyond MaxCount, in bytes.
const listXattrsSlack = 8 + 4 + 4

// ListXattrs is LISTXATTRS (section 8.4.3). MaxCount bounds the results as in READDIR.
type ListXattrs struct {
	Cookie   uint64
	MaxCount uint32
	// Results.
	ResCookie uint64
	Names     []string
	EOF       bool
}

func (*ListXattrs) Op() Op { return OpListXattrs }

func (o *ListXattrs) AppendArgs(w *xdr.Writer) {
	w.Uint64(o.Cookie)
	w.Uint32(o.MaxCount)
}

func (o *ListXattrs) ParseArgs(r *xdr.Reader) { o.Cookie, o.MaxCount = r.Uint64(), r.Uint32() }

func (o *ListXattrs) AppendRes(w *xdr.Writer, st Status) {
	if st != OK {
		return
	}
	w.Uint64(o.ResCookie)
	appendStrings(w, o.Names)
	w.Bool(o.EOF)
}

func (o *ListXattrs) ParseRes(r *xdr.Reader, st Status) {
	o.Names, o.EOF = o.Names[:0], false
	if st != OK {
		return
	}
	o.ResCookie = r.Uint64()
	for n := r.Count(r.Remaining() / 4); n > 0 && r.Err() == nil; n-- {
		o.Names = append(o.Names, r.String(MaxName))
	}
	o.EOF = r.Bool()
}

func (o *ListXattrs) ReplyMax() int { return sizeOp + int(o.MaxCount) + listXattrsSlack }

// RemoveXattr is REMOVEXATTR (section 8.4.4). Results are the change of the file.
type RemoveXattr struct {
	Name string
	// Results.
	changeRes
}

func (*RemoveXattr) Op() Op                     { return OpRemoveXattr }
func (o *RemoveXattr) AppendArgs(w *xdr.Writer) { w.String(o.Name) }
func (o *RemoveXattr) ParseArgs(r *xdr.Reader)  { parseString(r, &o.Name, MaxName) }
