package wire

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Read is READ (RFC 8881 section 18.22). Data may be a payload.
type Read struct {
	Stateid Stateid
	Offset  uint64
	Count   uint32
	// Results.
	EOF  bool
	Data Bulk
}

func (*Read) Op() Op { return OpRead }

func (o *Read) AppendArgs(w *xdr.Writer) {
	o.Stateid.append(w)
	w.Uint64(o.Offset)
	w.Uint32(o.Count)
}

func (o *Read) ParseArgs(r *xdr.Reader) {
	o.Stateid.parse(r)
	o.Offset, o.Count = r.Uint64(), r.Uint32()
}

func (o *Read) AppendRes(w *xdr.Writer, st Status) {
	if st == OK {
		w.Bool(o.EOF)
		o.Data.Append(w)
	}
}

// ParseRes refuses more data than was asked for.
func (o *Read) ParseRes(r *xdr.Reader, st Status) {
	o.EOF, o.Data.Len = false, 0
	if st != OK {
		return
	}
	o.EOF = r.Bool()
	o.Data.Parse(r, int(min(o.Count, MaxData)))
	if r.Err() == nil && o.Data.Len > int(o.Count) {
		r.Fail("READ of %d bytes answered with %d", o.Count, o.Data.Len)
	}
}

func (*Read) ReplyMax() int { return sizeOp + 4 + 4 }

func parseStable(r *xdr.Reader) nfsclient.Stable {
	return nfsclient.Stable(parseEnum(r, "stable_how4", 0, uint32(nfsclient.FileSync)))
}

// Write is WRITE (section 18.32). Data may be a payload.
type Write struct {
	Stateid Stateid
	Offset  uint64
	Stable  nfsclient.Stable
	Data    Bulk
	// Results.
	Count     uint32
	Committed nfsclient.Stable
	Verifier  nfsclient.Verifier
}

func (*Write) Op() Op { return OpWrite }

func (o *Write) AppendArgs(w *xdr.Writer) {
	o.Stateid.append(w)
	w.Uint64(o.Offset)
	w.Uint32(uint32(o.Stable))
	o.Data.Append(w)
}

func (o *Write) ParseArgs(r *xdr.Reader) {
	o.Stateid.parse(r)
	o.Offset, o.Stable = r.Uint64(), parseStable(r)
	o.Data.Parse(r, MaxData)
}

func (o *Write) AppendRes(w *xdr.Writer, st Status) {
	if st == OK {
		w.Uint32(o.Count)
		w.Uint32(uint32(o.Committed))
		appendVerf(w, o.Verifier)
	}
}

func (o *Write) ParseRes(r *xdr.Reader, st Status) {
	o.Count = 0
	if st == OK {
		o.Count, o.Committed, o.Verifier = r.Uint32(), parseStable(r), parseVerf(r)
	}
}

func (*Write) ReplyMax() int { return sizeOp + 4 + 4 + sizeVerf }

// Commit is COMMIT (section 18.3).
type Commit struct {
	Offset uint64
	Count  uint32
	// Results.
	Verifier nfsclient.Verifier
}

func (*Commit) Op() Op { return OpCommit }

func (o *Commit) AppendArgs(w *xdr.Writer) {
	w.Uint64(o.Offset)
	w.Uint32(o.Count)
}

func (o *Commit) ParseArgs(r *xdr.Reader) { o.Offset, o.Count = r.Uint64(), r.Uint32() }

func (o *Commit) AppendRes(w *xdr.Writer, st Status) {
	if st == OK {
		appendVerf(w, o.Verifier)
	}
}

func (o *Commit) ParseRes(r *xdr.Reader, st Status) {
	if st == OK {
		o.Verifier = parseVerf(r)
	}
}

func (*Commit) ReplyMax() int { return sizeOp + sizeVerf }
