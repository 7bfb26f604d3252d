package wire

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// ReadArgs is the arguments of READ (RFC 1813 section 3.3.6).
type ReadArgs struct {
	Handle nfsclient.Handle
	Offset uint64
	Count  uint32
}

func (a *ReadArgs) Append(w *xdr.Writer) {
	appendHandle(w, a.Handle)
	w.Uint64(a.Offset)
	w.Uint32(a.Count)
}

func (a *ReadArgs) Parse(r *xdr.Reader) {
	a.Handle, a.Offset, a.Count = parseHandle(r), r.Uint64(), r.Uint32()
}

// ReadRes is the results of READ. Attr holds in both arms. Count ought to be
// the length of Data; Parse does not insist.
type ReadRes struct {
	Status nfsclient.Status
	Attr   PostAttr
	Count  uint32
	EOF    bool
	Data   Bulk
}

func (a *ReadRes) Append(w *xdr.Writer) {
	w.Uint32(uint32(a.Status))
	a.Attr.append(w)
	if a.Status == nfsclient.OK {
		w.Uint32(a.Count)
		w.Bool(a.EOF)
		a.Data.Append(w)
	}
}

func (a *ReadRes) Parse(r *xdr.Reader) {
	a.Status = parseStatus(r)
	a.Attr.parse(r)
	if a.Status == nfsclient.OK {
		a.Count, a.EOF = r.Uint32(), r.Bool()
		a.Data.Parse(r, MaxData)
	}
}

// WriteArgs is the arguments of WRITE (section 3.3.7). Count ought to be the
// length of Data; Parse does not insist.
type WriteArgs struct {
	Handle nfsclient.Handle
	Offset uint64
	Count  uint32
	Stable nfsclient.Stable
	Data   Bulk
}

func (a *WriteArgs) Append(w *xdr.Writer) {
	appendHandle(w, a.Handle)
	w.Uint64(a.Offset)
	w.Uint32(a.Count)
	w.Uint32(uint32(a.Stable))
	a.Data.Append(w)
}

func (a *WriteArgs) Parse(r *xdr.Reader) {
	a.Handle, a.Offset, a.Count, a.Stable = parseHandle(r), r.Uint64(), r.Uint32(), parseStable(r)
	a.Data.Parse(r, MaxData)
}

func parseStable(r *xdr.Reader) nfsclient.Stable {
	v := r.Uint32()
	if v > uint32(nfsclient.FileSync) {
		r.Fail("stable_how %d", v)
	}
	return nfsclient.Stable(v)
}

// WriteRes is the results of WRITE. Wcc holds in both arms.
type WriteRes struct {
	Status    nfsclient.Status
	Wcc       Wcc
	Count     uint32
	Committed nfsclient.Stable
	Verifier  nfsclient.Verifier
}

func (a *WriteRes) Append(w *xdr.Writer) {
	w.Uint32(uint32(a.Status))
	a.Wcc.append(w)
	if a.Status == nfsclient.OK {
		w.Uint32(a.Count)
		w.Uint32(uint32(a.Committed))
		appendVerf(w, a.Verifier)
	}
}

func (a *WriteRes) Parse(r *xdr.Reader) {
	a.Status = parseStatus(r)
	a.Wcc.parse(r)
	if a.Status == nfsclient.OK {
		a.Count, a.Committed, a.Verifier = r.Uint32(), parseStable(r), parseVerf(r)
	}
}

// CommitArgs is the arguments of COMMIT (section 3.3.21).
type CommitArgs struct {
	Handle nfsclient.Handle
	Offset uint64
	Count  uint32
}

func (a *CommitArgs) Append(w *xdr.Writer) {
	appendHandle(w, a.Handle)
	w.Uint64(a.Offset)
	w.Uint32(a.Count)
}

func (a *CommitArgs) Parse(r *xdr.Reader) {
	a.Handle, a.Offset, a.Count = parseHandle(r), r.Uint64(), r.Uint32()
}

// CommitRes is the results of COMMIT. Wcc holds in both arms.
type CommitRes struct {
	Status   nfsclient.Status
	Wcc      Wcc
	Verifier nfsclient.Verifier
}

func (a *CommitRes) Append(w *xdr.Writer) {
	w.Uint32(uint32(a.Status))
	a.Wcc.append(w)
	if a.Status == nfsclient.OK {
		appendVerf(w, a.Verifier)
	}
}

func (a *CommitRes) Parse(r *xdr.Reader) {
	a.Status = parseStatus(r)
	a.Wcc.parse(r)
	if a.Status == nfsclient.OK {
		a.Verifier = parseVerf(r)
	}
}
