package wire

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// CreateMode is createmode3 (RFC 1813 section 3.3.8).
type CreateMode uint32

const (
	Unchecked CreateMode = 0
	Guarded   CreateMode = 1
	Exclusive CreateMode = 2
)

// CreateArgs is the arguments of CREATE. Attr holds but for Exclusive, which
// has a Verifier.
type CreateArgs struct {
	Where    DirOp
	Mode     CreateMode
	Attr     SetAttr
	Verifier nfsclient.Verifier
}

func (a *CreateArgs) Append(w *xdr.Writer) {
	a.Where.Append(w)
	w.Uint32(uint32(a.Mode))
	if a.Mode == Exclusive {
		appendVerf(w, a.Verifier)
	} else {
		a.Attr.append(w)
	}
}

func (a *CreateArgs) Parse(r *xdr.Reader) {
	a.Where.Parse(r)
	switch a.Mode = CreateMode(r.Uint32()); a.Mode {
	case Unchecked, Guarded:
		a.Attr.parse(r)
	case Exclusive:
		a.Verifier = parseVerf(r)
	default:
		r.Fail("createmode %d", a.Mode)
	}
}

// MkdirArgs is the arguments of MKDIR (section 3.3.9).
type MkdirArgs struct {
	Where DirOp
	Attr  SetAttr
}

func (a *MkdirArgs) Append(w *xdr.Writer) {
	a.Where.Append(w)
	a.Attr.append(w)
}

func (a *MkdirArgs) Parse(r *xdr.Reader) {
	a.Where.Parse(r)
	a.Attr.parse(r)
}

// SymlinkArgs is the arguments of SYMLINK (section 3.3.10). Target may be a
// payload.
type SymlinkArgs struct {
	Where  DirOp
	Attr   SetAttr
	Target Bulk
}

func (a *SymlinkArgs) Append(w *xdr.Writer) {
	a.Where.Append(w)
	a.Attr.append(w)
	a.Target.Append(w)
}

func (a *SymlinkArgs) Parse(r *xdr.Reader) {
	a.Where.Parse(r)
	a.Attr.parse(r)
	a.Target.Parse(r, MaxPath)
}

// MknodArgs is the arguments of MKNOD (section 3.3.11). Attr holds for
// devices, sockets and FIFOs, Dev for devices; the other types are carried so
// that a server can refuse them with NFS3ERR_BADTYPE.
type MknodArgs struct {
	Where DirOp
	Type  nfsclient.FileType
	Attr  SetAttr
	Dev   nfsclient.Device
}

func (a *MknodArgs) Append(w *xdr.Writer) {
	a.Where.Append(w)
	w.Uint32(uint32(a.Type))
	switch a.Type {
	case nfsclient.BlockDevice, nfsclient.CharDevice:
		a.Attr.append(w)
		w.Uint32(a.Dev.Major)
		w.Uint32(a.Dev.Minor)
	case nfsclient.Socket, nfsclient.FIFO:
		a.Attr.append(w)
	}
}

func (a *MknodArgs) Parse(r *xdr.Reader) {
	a.Where.Parse(r)
	switch a.Type = parseType(r); a.Type {
	case nfsclient.BlockDevice, nfsclient.CharDevice:
		a.Attr.parse(r)
		a.Dev.Major, a.Dev.Minor = r.Uint32(), r.Uint32()
	case nfsclient.Socket, nfsclient.FIFO:
		a.Attr.parse(r)
	}
}

// MadeRes is the results of CREATE, MKDIR, SYMLINK and MKNOD. Dir holds in
// both arms.
type MadeRes struct {
	Status nfsclient.Status
	Handle PostHandle
	Attr   PostAttr
	Dir    Wcc
}

func (a *MadeRes) Append(w *xdr.Writer) {
	w.Uint32(uint32(a.Status))
	if a.Status == nfsclient.OK {
		a.Handle.append(w)
		a.Attr.append(w)
	}
	a.Dir.append(w)
}

func (a *MadeRes) Parse(r *xdr.Reader) {
	if a.Status = parseStatus(r); a.Status == nfsclient.OK {
		a.Handle.parse(r)
		a.Attr.parse(r)
	}
	a.Dir.parse(r)
}
