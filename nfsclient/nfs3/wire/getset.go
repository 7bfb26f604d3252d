package wire

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// GetAttrRes is the results of GETATTR (RFC 1813 section 3.3.1).
type GetAttrRes struct {
	Status nfsclient.Status
	Attr   Attr
}

func (a *GetAttrRes) Append(w *xdr.Writer) {
	w.Uint32(uint32(a.Status))
	if a.Status == nfsclient.OK {
		a.Attr.append(w)
	}
}

func (a *GetAttrRes) Parse(r *xdr.Reader) {
	if a.Status = parseStatus(r); a.Status == nfsclient.OK {
		a.Attr.parse(r)
	}
}

// SetAttrArgs is the arguments of SETATTR (section 3.3.2). With Guarded the
// server makes no change unless the file's ctime is Guard.
type SetAttrArgs struct {
	Handle  nfsclient.Handle
	Attr    SetAttr
	Guarded bool
	Guard   Time
}

func (a *SetAttrArgs) Append(w *xdr.Writer) {
	appendHandle(w, a.Handle)
	a.Attr.append(w)
	w.Bool(a.Guarded)
	if a.Guarded {
		a.Guard.append(w)
	}
}

func (a *SetAttrArgs) Parse(r *xdr.Reader) {
	a.Handle = parseHandle(r)
	a.Attr.parse(r)
	if a.Guarded = r.Bool(); a.Guarded {
		a.Guard.parse(r)
	}
}

// LookupRes is the results of LOOKUP (section 3.3.3). Dir holds in both arms.
type LookupRes struct {
	Status nfsclient.Status
	Handle nfsclient.Handle
	Attr   PostAttr
	Dir    PostAttr
}

func (a *LookupRes) Append(w *xdr.Writer) {
	w.Uint32(uint32(a.Status))
	if a.Status == nfsclient.OK {
		appendHandle(w, a.Handle)
		a.Attr.append(w)
	}
	a.Dir.append(w)
}

func (a *LookupRes) Parse(r *xdr.Reader) {
	if a.Status = parseStatus(r); a.Status == nfsclient.OK {
		a.Handle = parseHandle(r)
		a.Attr.parse(r)
	}
	a.Dir.parse(r)
}

// AccessArgs is the arguments of ACCESS (section 3.3.4).
type AccessArgs struct {
	Handle nfsclient.Handle
	Access nfsclient.AccessMask
}

func (a *AccessArgs) Append(w *xdr.Writer) {
	appendHandle(w, a.Handle)
	w.Uint32(uint32(a.Access))
}

func (a *AccessArgs) Parse(r *xdr.Reader) {
	a.Handle, a.Access = parseHandle(r), nfsclient.AccessMask(r.Uint32())
}

// AccessRes is the results of ACCESS. Attr holds in both arms.
type AccessRes struct {
	Status nfsclient.Status
	Attr   PostAttr
	Access nfsclient.AccessMask
}

func (a *AccessRes) Append(w *xdr.Writer) {
	w.Uint32(uint32(a.Status))
	a.Attr.append(w)
	if a.Status == nfsclient.OK {
		w.Uint32(uint32(a.Access))
	}
}

func (a *AccessRes) Parse(r *xdr.Reader) {
	a.Status = parseStatus(r)
	a.Attr.parse(r)
	if a.Status == nfsclient.OK {
		a.Access = nfsclient.AccessMask(r.Uint32())
	}
}

// ReadLinkRes is the results of READLINK (section 3.3.5). Attr holds in both
// arms; Target may be a payload.
type ReadLinkRes struct {
	Status nfsclient.Status
	Attr   PostAttr
	Target Bulk
}

func (a *ReadLinkRes) Append(w *xdr.Writer) {
	w.Uint32(uint32(a.Status))
	a.Attr.append(w)
	if a.Status == nfsclient.OK {
		a.Target.Append(w)
	}
}

func (a *ReadLinkRes) Parse(r *xdr.Reader) {
	a.Status = parseStatus(r)
	a.Attr.parse(r)
	if a.Status == nfsclient.OK {
		a.Target.Parse(r, MaxPath)
	}
}
