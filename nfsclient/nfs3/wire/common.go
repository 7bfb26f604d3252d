package wire

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Message is the arguments or the results of a procedure.
type Message interface {
	Append(w *xdr.Writer)
	Parse(r *xdr.Reader)
}

// Void is the arguments or results of procedures that have none.
type Void struct{}

func (*Void) Append(*xdr.Writer) {}
func (*Void) Parse(*xdr.Reader)  {}

// Bulk is a data item that may travel beside the stream (RFC 8267 section 4):
// the data of READ and WRITE, the target of READLINK and SYMLINK.
type Bulk = xdr.Bulk

// Marked is a Bulk that stands in payload i.
func Marked(i int) Bulk { return xdr.Marked(i) }

// Inline is a Bulk that stands in b, which it borrows.
func Inline(b []byte) Bulk { return xdr.Inline(b) }

func appendHandle(w *xdr.Writer, h nfsclient.Handle) { w.String(string(h)) }

func parseHandle(r *xdr.Reader) nfsclient.Handle { return nfsclient.Handle(r.String(MaxHandle)) }

// PostHandle is post_op_fh3: a handle that a server may leave out.
type PostHandle struct {
	Set    bool
	Handle nfsclient.Handle
}

func (p *PostHandle) append(w *xdr.Writer) {
	w.Bool(p.Set)
	if p.Set {
		appendHandle(w, p.Handle)
	}
}

func (p *PostHandle) parse(r *xdr.Reader) {
	if p.Set = r.Bool(); p.Set {
		p.Handle = parseHandle(r)
	}
}

// DirOp is diropargs3, and the arguments of LOOKUP, REMOVE and RMDIR.
type DirOp struct {
	Dir  nfsclient.Handle
	Name string
}

func (a *DirOp) Append(w *xdr.Writer) {
	appendHandle(w, a.Dir)
	w.String(a.Name)
}

func (a *DirOp) Parse(r *xdr.Reader) { a.Dir, a.Name = parseHandle(r), r.String(MaxName) }

// HandleArgs is the arguments of GETATTR, READLINK, FSSTAT, FSINFO and
// PATHCONF.
type HandleArgs struct{ Handle nfsclient.Handle }

func (a *HandleArgs) Append(w *xdr.Writer) { appendHandle(w, a.Handle) }
func (a *HandleArgs) Parse(r *xdr.Reader)  { a.Handle = parseHandle(r) }

// WccRes is the results of SETATTR, REMOVE and RMDIR: both arms are alike.
type WccRes struct {
	Status nfsclient.Status
	Wcc    Wcc
}

func (a *WccRes) Append(w *xdr.Writer) {
	w.Uint32(uint32(a.Status))
	a.Wcc.append(w)
}

func (a *WccRes) Parse(r *xdr.Reader) {
	a.Status = parseStatus(r)
	a.Wcc.parse(r)
}

func parseStatus(r *xdr.Reader) nfsclient.Status { return nfsclient.Status(r.Uint32()) }

func appendVerf(w *xdr.Writer, v nfsclient.Verifier) { w.Fixed(v[:]) }

func parseVerf(r *xdr.Reader) (v nfsclient.Verifier) {
	copy(v[:], r.Fixed(len(v)))
	return v
}
