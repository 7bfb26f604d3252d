package wire

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Bits of Open.Access and Open.Deny (RFC 8881 section 18.16), and of Open.ResFlags.
const (
	ShareRead         = 1
	ShareWrite        = 2
	ShareBoth         = 3
	WantReadDeleg     = 0x0100
	WantWriteDeleg    = 0x0200
	WantAnyDeleg      = 0x0300
	WantNoDeleg       = 0x0400
	WantCancel        = 0x0500
	OpenConfirm       = 0x02
	OpenLocktypePosix = 0x04
	// OpenPreserveUnlinked: a file that is removed while it is open stays.
	OpenPreserveUnlinked = 0x08
	OpenMayNotifyLock    = 0x20
)

// CreateMode is createmode4.
type CreateMode uint32

const (
	Unchecked  CreateMode = 0
	Guarded    CreateMode = 1
	Exclusive  CreateMode = 2
	Exclusive1 CreateMode = 3 // EXCLUSIVE4_1
)

// ClaimType is open_claim_type4.
type ClaimType uint32

const (
	ClaimNull         ClaimType = 0
	ClaimPrevious     ClaimType = 1
	ClaimDelegateCur  ClaimType = 2
	ClaimDelegatePrev ClaimType = 3
	ClaimFH           ClaimType = 4
	ClaimDelegCurFH   ClaimType = 5
	ClaimDelegPrevFH  ClaimType = 6
)

// Open is OPEN.
type Open struct {
	Seqid        uint32 // of no meaning in sessions
	Access, Deny uint32
	Owner        Owner
	// Create: the file is made by Mode. Attrs holds but for Exclusive, Verifier
	// with Exclusive and Exclusive1.
	Create   bool
	Mode     CreateMode
	Attrs    Attrs
	Verifier nfsclient.Verifier
	// Name holds with ClaimNull, ClaimDelegateCur and ClaimDelegatePrev, DelegType
	// with ClaimPrevious, DelegStateid with ClaimDelegateCur and ClaimDelegCurFH.
	Claim        ClaimType
	Name         string
	DelegType    DelegType
	DelegStateid Stateid
	// Results.
	Stateid    Stateid
	Change     ChangeInfo
	ResFlags   uint32
	AttrSet    Bitmap
	Delegation Delegation
}

func (*Open) Op() Op { return OpOpen }

func (o *Open) AppendArgs(w *xdr.Writer) {
	w.Uint32(o.Seqid)
	w.Uint32(o.Access)
	w.Uint32(o.Deny)
	o.Owner.append(w)
	w.Bool(o.Create)
	if o.Create {
		w.Uint32(uint32(o.Mode))
		if o.Mode == Exclusive || o.Mode == Exclusive1 {
			appendVerf(w, o.Verifier)
		}
		if o.Mode != Exclusive {
			o.Attrs.append(w)
		}
	}
	w.Uint32(uint32(o.Claim))
	switch o.Claim {
	case ClaimNull, ClaimDelegatePrev:
		w.String(o.Name)
	case ClaimPrevious:
		w.Uint32(uint32(o.DelegType))
	case ClaimDelegateCur:
		o.DelegStateid.append(w)
		w.String(o.Name)
	case ClaimDelegCurFH:
		o.DelegStateid.append(w)
	}
}

func (o *Open) ParseArgs(r *xdr.Reader) {
	o.Seqid, o.Access, o.Deny = r.Uint32(), r.Uint32(), r.Uint32()
	o.Owner.parse(r)
	if o.Create = r.Bool(); o.Create {
		o.Mode = CreateMode(parseEnum(r, "createmode4", 0, uint32(Exclusive1)))
		if o.Mode == Exclusive || o.Mode == Exclusive1 {
			o.Verifier = parseVerf(r)
		}
		if o.Mode != Exclusive {
			o.Attrs.parse(r)
		}
	}
	o.Claim = ClaimType(parseEnum(r, "open_claim_type4", 0, uint32(ClaimDelegPrevFH)))
	switch o.Claim {
	case ClaimNull, ClaimDelegatePrev:
		parseString(r, &o.Name, MaxName)
	case ClaimPrevious:
		o.DelegType = DelegType(parseEnum(r, "open_delegation_type4", 0, uint32(DelegNoneExt)))
	case ClaimDelegateCur:
		o.DelegStateid.parse(r)
		parseString(r, &o.Name, MaxName)
	case ClaimDelegCurFH:
		o.DelegStateid.parse(r)
	}
}

func (o *Open) AppendRes(w *xdr.Writer, st Status) {
	if st != OK {
		return
	}
	o.Stateid.append(w)
	o.Change.append(w)
	w.Uint32(o.ResFlags)
	o.AttrSet.append(w)
	o.Delegation.append(w)
}

func (o *Open) ParseRes(r *xdr.Reader, st Status) {
	if st != OK {
		return
	}
	o.Stateid.parse(r)
	o.Change.parse(r)
	o.ResFlags = r.Uint32()
	o.AttrSet.parse(r)
	o.Delegation.parse(r)
}

func (*Open) ReplyMax() int {
	return sizeOp + sizeStateid + sizeChange + 4 + sizeBitmap + sizeDelegation
}

// OpenDowngrade is OPEN_DOWNGRADE (section 18.18).
type OpenDowngrade struct {
	Stateid      Stateid
	Seqid        uint32
	Access, Deny uint32
	// Results.
	ResStateid Stateid
}

func (*OpenDowngrade) Op() Op { return OpOpenDowngrade }

func (o *OpenDowngrade) AppendArgs(w *xdr.Writer) {
	o.Stateid.append(w)
	w.Uint32(o.Seqid)
	w.Uint32(o.Access)
	w.Uint32(o.Deny)
}

func (o *OpenDowngrade) ParseArgs(r *xdr.Reader) {
	o.Stateid.parse(r)
	o.Seqid, o.Access, o.Deny = r.Uint32(), r.Uint32(), r.Uint32()
}

func (o *OpenDowngrade) AppendRes(w *xdr.Writer, st Status) { appendStateidRes(w, &o.ResStateid, st) }
func (o *OpenDowngrade) ParseRes(r *xdr.Reader, st Status)  { parseStateidRes(r, &o.ResStateid, st) }
func (*OpenDowngrade) ReplyMax() int                        { return sizeOp + sizeStateid }

// Close is CLOSE (section 18.2). The stateid in its results means nothing.
type Close struct {
	Seqid   uint32
	Stateid Stateid
	// Results.
	ResStateid Stateid
}

func (*Close) Op() Op { return OpClose }

func (o *Close) AppendArgs(w *xdr.Writer) {
	w.Uint32(o.Seqid)
	o.Stateid.append(w)
}

func (o *Close) ParseArgs(r *xdr.Reader) {
	o.Seqid = r.Uint32()
	o.Stateid.parse(r)
}

func (o *Close) AppendRes(w *xdr.Writer, st Status) { appendStateidRes(w, &o.ResStateid, st) }
func (o *Close) ParseRes(r *xdr.Reader, st Status)  { parseStateidRes(r, &o.ResStateid, st) }
func (*Close) ReplyMax() int                        { return sizeOp + sizeStateid }

// appendStateidRes and parseStateidRes are results that are a stateid.
func appendStateidRes(w *xdr.Writer, s *Stateid, st Status) {
	if st == OK {
		s.append(w)
	}
}

func parseStateidRes(r *xdr.Reader, s *Stateid, st Status) {
	if st == OK {
		s.parse(r)
	}
}
