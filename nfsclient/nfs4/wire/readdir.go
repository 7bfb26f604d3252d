package wire

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Entry is entry4.
type Entry struct {
	Cookie uint64
	Name   string
	Attrs  Attrs
}

// readDirSlack is what results of READDIR may have beyond MaxCount, in bytes: by the RFC
// MaxCount covers all but resop and status; servers that hold it to cover the entries alone
// are allowed for.
const readDirSlack = sizeVerf + 4 + 4

// ReadDir is READDIR (RFC 8881 section 18.23).
type ReadDir struct {
	Cookie   uint64
	Verifier nfsclient.Verifier
	DirCount uint32
	MaxCount uint32
	Want     Bitmap
	// Results.
	ResVerifier nfsclient.Verifier
	Entries     []Entry
	EOF         bool
}

func (*ReadDir) Op() Op { return OpReadDir }

func (o *ReadDir) AppendArgs(w *xdr.Writer) {
	w.Uint64(o.Cookie)
	appendVerf(w, o.Verifier)
	w.Uint32(o.DirCount)
	w.Uint32(o.MaxCount)
	o.Want.append(w)
}

func (o *ReadDir) ParseArgs(r *xdr.Reader) {
	o.Cookie, o.Verifier, o.DirCount, o.MaxCount = r.Uint64(), parseVerf(r), r.Uint32(), r.Uint32()
	o.Want.parse(r)
}

func (o *ReadDir) AppendRes(w *xdr.Writer, st Status) {
	if st != OK {
		return
	}
	appendVerf(w, o.ResVerifier)
	for i := range o.Entries {
		w.Bool(true)
		e := &o.Entries[i]
		w.Uint64(e.Cookie)
		w.String(e.Name)
		e.Attrs.append(w)
	}
	w.Bool(false)
	w.Bool(o.EOF)
}

// ParseRes appends to Entries[:0]. Each entry has used up bytes of the message, which so
// bounds their number.
func (o *ReadDir) ParseRes(r *xdr.Reader, st Status) {
	o.Entries, o.EOF = o.Entries[:0], false
	if st != OK {
		return
	}
	o.ResVerifier = parseVerf(r)
	for r.Bool() {
		o.Entries = append(o.Entries, Entry{Cookie: r.Uint64(), Name: r.String(MaxName)})
		o.Entries[len(o.Entries)-1].Attrs.parse(r)
	}
	o.EOF = r.Bool()
}

func (o *ReadDir) ReplyMax() int { return sizeOp + int(o.MaxCount) + readDirSlack }
