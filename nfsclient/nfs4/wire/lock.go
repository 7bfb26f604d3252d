package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// LockType is nfs_lock_type4. Those with Wait tell the server that the client will ask
// again.
type LockType uint32

const (
	ReadLock      LockType = 1
	WriteLock     LockType = 2
	ReadLockWait  LockType = 3
	WriteLockWait LockType = 4
)

// ToEnd is the length of a lock to the end of the file, wherever that comes to be.
const ToEnd = 1<<64 - 1

func parseLockType(r *xdr.Reader) LockType {
	return LockType(parseEnum(r, "nfs_lock_type4", uint32(ReadLock), uint32(WriteLockWait)))
}

// Denied is LOCK4denied: a lock that conflicts. It comes with ErrDenied.
type Denied struct {
	Offset, Length uint64
	Type           LockType
	Owner          Owner
}

func (d *Denied) append(w *xdr.Writer) {
	w.Uint64(d.Offset)
	w.Uint64(d.Length)
	w.Uint32(uint32(d.Type))
	d.Owner.append(w)
}

func (d *Denied) parse(r *xdr.Reader) {
	d.Offset, d.Length, d.Type = r.Uint64(), r.Uint64(), parseLockType(r)
	d.Owner.parse(r)
}

// Lock is LOCK (RFC 8881 section 18.10).
type Lock struct {
	Type           LockType
	Reclaim        bool
	Offset, Length uint64
	// New: the owner has no lock stateid yet. OpenSeqid, OpenStateid and Owner then
	// hold, else LockStateid does. Seqids have no meaning in sessions.
	New         bool
	OpenSeqid   uint32
	OpenStateid Stateid
	LockSeqid   uint32
	Owner       Owner
	LockStateid Stateid
	// Results.
	Stateid Stateid
	Denied  Denied
}

func (*Lock) Op() Op { return OpLock }

func (o *Lock) AppendArgs(w *xdr.Writer) {
	w.Uint32(uint32(o.Type))
	w.Bool(o.Reclaim)
	w.Uint64(o.Offset)
	w.Uint64(o.Length)
	w.Bool(o.New)
	if o.New {
		w.Uint32(o.OpenSeqid)
		o.OpenStateid.append(w)
		w.Uint32(o.LockSeqid)
		o.Owner.append(w)
	} else {
		o.LockStateid.append(w)
		w.Uint32(o.LockSeqid)
	}
}

func (o *Lock) ParseArgs(r *xdr.Reader) {
	o.Type, o.Reclaim, o.Offset, o.Length = parseLockType(r), r.Bool(), r.Uint64(), r.Uint64()
	if o.New = r.Bool(); o.New {
		o.OpenSeqid = r.Uint32()
		o.OpenStateid.parse(r)
		o.LockSeqid = r.Uint32()
		o.Owner.parse(r)
	} else {
		o.LockStateid.parse(r)
		o.LockSeqid = r.Uint32()
	}
}

func (o *Lock) AppendRes(w *xdr.Writer, st Status) {
	switch st {
	case OK:
		o.Stateid.append(w)
	case ErrDenied:
		o.Denied.append(w)
	}
}

func (o *Lock) ParseRes(r *xdr.Reader, st Status) {
	switch st {
	case OK:
		o.Stateid.parse(r)
	case ErrDenied:
		o.Denied.parse(r)
	}
}

func (*Lock) ReplyMax() int { return sizeOp + sizeDenied }

// LockT is LOCKT (section 18.11).
type LockT struct {
	Type           LockType
	Offset, Length uint64
	Owner          Owner
	// Results.
	Denied Denied
}

func (*LockT) Op() Op { return OpLockT }

func (o *LockT) AppendArgs(w *xdr.Writer) {
	w.Uint32(uint32(o.Type))
	w.Uint64(o.Offset)
	w.Uint64(o.Length)
	o.Owner.append(w)
}

func (o *LockT) ParseArgs(r *xdr.Reader) {
	o.Type, o.Offset, o.Length = parseLockType(r), r.Uint64(), r.Uint64()
	o.Owner.parse(r)
}

func (o *LockT) AppendRes(w *xdr.Writer, st Status) {
	if st == ErrDenied {
		o.Denied.append(w)
	}
}

func (o *LockT) ParseRes(r *xdr.Reader, st Status) {
	if st == ErrDenied {
		o.Denied.parse(r)
	}
}

func (*LockT) ReplyMax() int { return sizeOp + sizeDenied }

// LockU is LOCKU (section 18.12).
type LockU struct {
	Type           LockType
	Seqid          uint32
	Stateid        Stateid
	Offset, Length uint64
	// Results.
	ResStateid Stateid
}

func (*LockU) Op() Op { return OpLockU }

func (o *LockU) AppendArgs(w *xdr.Writer) {
	w.Uint32(uint32(o.Type))
	w.Uint32(o.Seqid)
	o.Stateid.append(w)
	w.Uint64(o.Offset)
	w.Uint64(o.Length)
}

func (o *LockU) ParseArgs(r *xdr.Reader) {
	o.Type, o.Seqid = parseLockType(r), r.Uint32()
	o.Stateid.parse(r)
	o.Offset, o.Length = r.Uint64(), r.Uint64()
}

func (o *LockU) AppendRes(w *xdr.Writer, st Status) { appendStateidRes(w, &o.ResStateid, st) }
func (o *LockU) ParseRes(r *xdr.Reader, st Status)  { parseStateidRes(r, &o.ResStateid, st) }
func (*LockU) ReplyMax() int                        { return sizeOp + sizeStateid }
