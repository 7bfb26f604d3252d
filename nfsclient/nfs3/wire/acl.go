package wire

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// NFSACL, the side-band program that carries POSIX access control lists beside NFSv3,
// on the same connection and port. There is no RFC; what it does is what servers of
// Solaris and Linux do (RFC 8267 section 5.2 says how it travels by RDMA).
const (
	ACLProgram = 100227
	ACLVersion = 3

	ACLNull = 0
	ACLGet  = 1
	ACLSet  = 2
)

// What GETACL asks for and SETACL sets: lists, and their lengths alone.
const (
	ACLAccess       = 1
	ACLAccessCount  = 2
	ACLDefault      = 4
	ACLDefaultCount = 8
	ACLAll          = ACLAccess | ACLAccessCount | ACLDefault | ACLDefaultCount
)

// ACLDefaultEntry is or'ed into the tags of a default list's entries.
const ACLDefaultEntry = 0x1000

const (
	sizeACLEntry = 12
	// sizeACLHead is what the results of GETACL hold besides entries.
	sizeACLHead = sizeStatus + sizePostAttr + 4 + 2*(4+4)
)

// The largest results of GETACL, with all entries that there can be, and with few.
const (
	GetACLReplyMax = sizeACLHead + 2*nfsclient.MaxACL*sizeACLEntry
	SetACLReplyMax = sizeStatus + sizePostAttr
	// FewACLs is how many entries, of both lists, fit ShortACLReplyMax.
	FewACLs          = 72
	ShortACLReplyMax = sizeACLHead + FewACLs*sizeACLEntry
)

// ACLEntry is an entry as it travels.
type ACLEntry struct{ Tag, ID, Perm uint32 }

// ACLs is secattr: both lists, or their lengths. A list that was not asked for has no
// entries, whatever its count.
type ACLs struct {
	Mask         uint32
	AccessCount  uint32
	Access       []ACLEntry
	DefaultCount uint32
	Default      []ACLEntry
}

func (a *ACLs) append(w *xdr.Writer) {
	w.Uint32(a.Mask)
	w.Uint32(a.AccessCount)
	appendACL(w, a.Access)
	w.Uint32(a.DefaultCount)
	appendACL(w, a.Default)
}

func (a *ACLs) parse(r *xdr.Reader) {
	a.Mask = r.Uint32()
	a.AccessCount = r.Uint32()
	a.Access = parseACL(r)
	a.DefaultCount = r.Uint32()
	a.Default = parseACL(r)
}

func appendACL(w *xdr.Writer, l []ACLEntry) {
	w.Uint32(uint32(len(l)))
	for _, e := range l {
		w.Uint32(e.Tag)
		w.Uint32(e.ID)
		w.Uint32(e.Perm)
	}
}

func parseACL(r *xdr.Reader) []ACLEntry {
	n := r.Count(nfsclient.MaxACL)
	if n*sizeACLEntry > r.Remaining() {
		r.Fail("a list of %d entries in %d bytes", n, r.Remaining())
	}
	if r.Err() != nil || n == 0 {
		return nil
	}
	l := make([]ACLEntry, n)
	for i := range l {
		l[i] = ACLEntry{r.Uint32(), r.Uint32(), r.Uint32()}
	}
	return l
}

// GetACLArgs is the arguments of GETACL.
type GetACLArgs struct {
	Handle nfsclient.Handle
	Mask   uint32
}

func (a *GetACLArgs) Append(w *xdr.Writer) {
	appendHandle(w, a.Handle)
	w.Uint32(a.Mask)
}

func (a *GetACLArgs) Parse(r *xdr.Reader) { a.Handle, a.Mask = parseHandle(r), r.Uint32() }

// GetACLRes is the results of GETACL. Attr holds in both arms.
type GetACLRes struct {
	Status nfsclient.Status
	Attr   PostAttr
	ACLs   ACLs
}

func (a *GetACLRes) Append(w *xdr.Writer) {
	w.Uint32(uint32(a.Status))
	a.Attr.append(w)
	if a.Status == nfsclient.OK {
		a.ACLs.append(w)
	}
}

func (a *GetACLRes) Parse(r *xdr.Reader) {
	a.Status = parseStatus(r)
	a.Attr.parse(r)
	if a.Status == nfsclient.OK {
		a.ACLs.parse(r)
	}
}

// SetACLArgs is the arguments of SETACL.
type SetACLArgs struct {
	Handle nfsclient.Handle
	ACLs   ACLs
}

func (a *SetACLArgs) Append(w *xdr.Writer) {
	appendHandle(w, a.Handle)
	a.ACLs.append(w)
}

func (a *SetACLArgs) Parse(r *xdr.Reader) {
	a.Handle = parseHandle(r)
	a.ACLs.parse(r)
}

// SetACLRes is the results of SETACL: both arms are alike.
type SetACLRes struct {
	Status nfsclient.Status
	Attr   PostAttr
}

func (a *SetACLRes) Append(w *xdr.Writer) {
	w.Uint32(uint32(a.Status))
	a.Attr.append(w)
}

func (a *SetACLRes) Parse(r *xdr.Reader) {
	a.Status = parseStatus(r)
	a.Attr.parse(r)
}
