package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// Verify is VERIFY (RFC 8881 section 18.31): it fails with NOT_SAME unless the attributes are
// those of the current file.
type Verify struct {
	noRes
	Attrs Attrs
}

func (*Verify) Op() Op                     { return OpVerify }
func (o *Verify) AppendArgs(w *xdr.Writer) { o.Attrs.append(w) }
func (o *Verify) ParseArgs(r *xdr.Reader)  { o.Attrs.parse(r) }

// NVerify is NVERIFY (section 18.15): it fails with SAME if they are.
type NVerify struct {
	noRes
	Attrs Attrs
}

func (*NVerify) Op() Op                     { return OpNVerify }
func (o *NVerify) AppendArgs(w *xdr.Writer) { o.Attrs.append(w) }
func (o *NVerify) ParseArgs(r *xdr.Reader)  { o.Attrs.parse(r) }
