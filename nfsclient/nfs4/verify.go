package nfs4

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// verifyType is VERIFY of a file's type, or with not NVERIFY: it fails, with NOT_SAME or SAME, unless the
// current file is, or is not, of that type (RFC 8881 sections 18.31 and 18.15).
type verifyType struct {
	not bool
	typ nfsclient.FileType
}

// Op implements wire.Operation.
func (v *verifyType) Op() wire.Op {
	if v.not {
		return wire.OpNVerify
	}
	return wire.OpVerify
}

// AppendArgs implements wire.Operation: fattr4 with the type alone.
func (v *verifyType) AppendArgs(w *xdr.Writer) {
	w.Uint32(1)
	w.Uint32(1 << wire.AttrType)
	w.Uint32(4)
	w.Uint32(uint32(v.typ))
}

// ParseArgs implements wire.Operation. Only a client uses it.
func (v *verifyType) ParseArgs(r *xdr.Reader) { r.Fixed(16) }

// AppendRes implements wire.Operation: there are no results.
func (v *verifyType) AppendRes(*xdr.Writer, wire.Status) {}

// ParseRes implements wire.Operation.
func (v *verifyType) ParseRes(*xdr.Reader, wire.Status) {}

// ReplyMax implements wire.Operation.
func (v *verifyType) ReplyMax() int { return 8 }
