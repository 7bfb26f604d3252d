package wire

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// ReadDirArgs is the arguments of READDIR (RFC 1813 section 3.3.16). Count
// bounds the bytes of the results' successful arm.
type ReadDirArgs struct {
	Dir      nfsclient.Handle
	Cookie   uint64
	Verifier nfsclient.Verifier
	Count    uint32
}

func (a *ReadDirArgs) Append(w *xdr.Writer) {
	appendHandle(w, a.Dir)
	w.Uint64(a.Cookie)
	appendVerf(w, a.Verifier)
	w.Uint32(a.Count)
}

func (a *ReadDirArgs) Parse(r *xdr.Reader) {
	a.Dir, a.Cookie, a.Verifier, a.Count = parseHandle(r), r.Uint64(), parseVerf(r), r.Uint32()
}

// ReadDirPlusArgs is the arguments of READDIRPLUS (section 3.3.17). DirCount
// bounds the bytes of names, cookies and file ids, MaxCount those of the
// results' successful arm.
type ReadDirPlusArgs struct {
	Dir      nfsclient.Handle
	Cookie   uint64
	Verifier nfsclient.Verifier
	DirCount uint32
	MaxCount uint32
}

func (a *ReadDirPlusArgs) Append(w *xdr.Writer) {
	appendHandle(w, a.Dir)
	w.Uint64(a.Cookie)
	appendVerf(w, a.Verifier)
	w.Uint32(a.DirCount)
	w.Uint32(a.MaxCount)
}

func (a *ReadDirPlusArgs) Parse(r *xdr.Reader) {
	a.Dir, a.Cookie, a.Verifier = parseHandle(r), r.Uint64(), parseVerf(r)
	a.DirCount, a.MaxCount = r.Uint32(), r.Uint32()
}

// Entry is entry3, or with ReadDirRes.Plus entryplus3, which has Attr and
// Handle too.
type Entry struct {
	FileID uint64
	Name   string
	Cookie uint64
	Attr   PostAttr
	Handle PostHandle
}

// Size is what an entry adds to the results, in bytes: its own and the word
// that announces it.
func (e *Entry) Size(plus bool) int {
	n := 4 + e.DirSize()
	if plus {
		n += 4 + 4
		if e.Attr.Set {
			n += sizeAttr
		}
		if e.Handle.Set {
			n += 4 + len(e.Handle.Handle) + xdr.Pad(len(e.Handle.Handle))
		}
	}
	return n
}

// DirSize is what an entry counts towards DirCount, in bytes.
func (e *Entry) DirSize() int { return 8 + 4 + len(e.Name) + xdr.Pad(len(e.Name)) + 8 }

func (e *Entry) append(w *xdr.Writer, plus bool) {
	w.Uint64(e.FileID)
	w.String(e.Name)
	w.Uint64(e.Cookie)
	if plus {
		e.Attr.append(w)
		e.Handle.append(w)
	}
}

func (e *Entry) parse(r *xdr.Reader, plus bool) {
	e.FileID, e.Name, e.Cookie = r.Uint64(), r.String(MaxName), r.Uint64()
	if plus {
		e.Attr.parse(r)
		e.Handle.parse(r)
	}
}

// ReadDirRes is the results of READDIR and, with Plus, of READDIRPLUS. Plus is
// not part of the message: it is to be set before Append and Parse. Dir holds
// in both arms.
type ReadDirRes struct {
	Plus     bool
	Status   nfsclient.Status
	Dir      PostAttr
	Verifier nfsclient.Verifier
	Entries  []Entry
	EOF      bool
}

func (a *ReadDirRes) Append(w *xdr.Writer) {
	w.Uint32(uint32(a.Status))
	a.Dir.append(w)
	if a.Status != nfsclient.OK {
		return
	}
	appendVerf(w, a.Verifier)
	for i := range a.Entries {
		w.Bool(true)
		a.Entries[i].append(w, a.Plus)
	}
	w.Bool(false)
	w.Bool(a.EOF)
}

// Parse appends to Entries[:0]. Each entry has used up bytes of the message,
// which so bounds their number.
func (a *ReadDirRes) Parse(r *xdr.Reader) {
	a.Entries = a.Entries[:0]
	a.Status = parseStatus(r)
	a.Dir.parse(r)
	if a.Status != nfsclient.OK {
		return
	}
	a.Verifier = parseVerf(r)
	for r.Bool() {
		a.Entries = append(a.Entries, Entry{})
		a.Entries[len(a.Entries)-1].parse(r, a.Plus)
	}
	a.EOF = r.Bool()
}
