package wire

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// PutFH is PUTFH (RFC 8881 section 18.19).
type PutFH struct {
	noRes
	Handle nfsclient.Handle
}

func (*PutFH) Op() Op                     { return OpPutFH }
func (o *PutFH) AppendArgs(w *xdr.Writer) { appendHandle(w, o.Handle) }
func (o *PutFH) ParseArgs(r *xdr.Reader)  { parseHandle(r, &o.Handle) }

// PutRootFH is PUTROOTFH (section 18.21).
type PutRootFH struct {
	noArgs
	noRes
}

func (*PutRootFH) Op() Op { return OpPutRootFH }

// SaveFH is SAVEFH (section 18.28).
type SaveFH struct {
	noArgs
	noRes
}

func (*SaveFH) Op() Op { return OpSaveFH }

// RestoreFH is RESTOREFH (section 18.27).
type RestoreFH struct {
	noArgs
	noRes
}

func (*RestoreFH) Op() Op { return OpRestoreFH }

// GetFH is GETFH (section 18.8).
type GetFH struct {
	noArgs
	// Results.
	Handle nfsclient.Handle
}

func (*GetFH) Op() Op { return OpGetFH }

func (o *GetFH) AppendRes(w *xdr.Writer, st Status) {
	if st == OK {
		appendHandle(w, o.Handle)
	}
}

func (o *GetFH) ParseRes(r *xdr.Reader, st Status) {
	if st == OK {
		parseHandle(r, &o.Handle)
	}
}

func (*GetFH) ReplyMax() int { return sizeOp + sizeHandle }

// Lookup is LOOKUP (section 18.13).
type Lookup struct {
	noRes
	Name string
}

func (*Lookup) Op() Op                     { return OpLookup }
func (o *Lookup) AppendArgs(w *xdr.Writer) { w.String(o.Name) }
func (o *Lookup) ParseArgs(r *xdr.Reader)  { parseString(r, &o.Name, MaxName) }

// LookupP is LOOKUPP (section 18.14).
type LookupP struct {
	noArgs
	noRes
}

func (*LookupP) Op() Op { return OpLookupP }
