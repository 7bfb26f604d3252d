package wire

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// RenameArgs is the arguments of RENAME (RFC 1813 section 3.3.14).
type RenameArgs struct{ From, To DirOp }

func (a *RenameArgs) Append(w *xdr.Writer) {
	a.From.Append(w)
	a.To.Append(w)
}

func (a *RenameArgs) Parse(r *xdr.Reader) {
	a.From.Parse(r)
	a.To.Parse(r)
}

// RenameRes is the results of RENAME; both arms are alike.
type RenameRes struct {
	Status         nfsclient.Status
	FromDir, ToDir Wcc
}

func (a *RenameRes) Append(w *xdr.Writer) {
	w.Uint32(uint32(a.Status))
	a.FromDir.append(w)
	a.ToDir.append(w)
}

func (a *RenameRes) Parse(r *xdr.Reader) {
	a.Status = parseStatus(r)
	a.FromDir.parse(r)
	a.ToDir.parse(r)
}

// LinkArgs is the arguments of LINK (section 3.3.15).
type LinkArgs struct {
	Handle nfsclient.Handle
	Where  DirOp
}

func (a *LinkArgs) Append(w *xdr.Writer) {
	appendHandle(w, a.Handle)
	a.Where.Append(w)
}

func (a *LinkArgs) Parse(r *xdr.Reader) {
	a.Handle = parseHandle(r)
	a.Where.Parse(r)
}

// LinkRes is the results of LINK; both arms are alike.
type LinkRes struct {
	Status nfsclient.Status
	Attr   PostAttr
	Dir    Wcc
}

func (a *LinkRes) Append(w *xdr.Writer) {
	w.Uint32(uint32(a.Status))
	a.Attr.append(w)
	a.Dir.append(w)
}

func (a *LinkRes) Parse(r *xdr.Reader) {
	a.Status = parseStatus(r)
	a.Attr.parse(r)
	a.Dir.parse(r)
}
