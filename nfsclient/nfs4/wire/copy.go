package wire

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// NetLoc is netloc4. Name is a name or URL; with NetLocAddr, NetID and Addr hold instead.
type NetLoc struct {
	Type        uint32
	Name        string
	NetID, Addr string
}

// Types of NetLoc.
const (
	NetLocName = 1
	NetLocURL  = 2
	NetLocAddr = 3
)

func (l *NetLoc) append(w *xdr.Writer) {
	w.Uint32(l.Type)
	if l.Type == NetLocAddr {
		w.String(l.NetID)
		w.String(l.Addr)
	} else {
		w.String(l.Name)
	}
}

func (l *NetLoc) parse(r *xdr.Reader) {
	if l.Type = parseEnum(r, "netloc_type4", NetLocName, NetLocAddr); l.Type == NetLocAddr {
		l.NetID, l.Addr = r.String(MaxNetID), r.String(MaxUniversalAddr)
	} else {
		l.Name = r.String(MaxName)
	}
}

// Copy is COPY (RFC 7862 section 15.2), from the saved filehandle to the current one.
type Copy struct {
	From, To             Stateid
	FromOffset, ToOffset uint64
	Count                uint64
	Consecutive          bool
	Synchronous          bool
	Sources              []NetLoc
	// Results. With ErrOffloadNoReqs only the last two come. Callback holds if
	// HasCallback: the copy goes on, and OffloadStatus asks for it.
	HasCallback    bool
	Callback       Stateid
	Copied         uint64
	Committed      nfsclient.Stable
	Verifier       nfsclient.Verifier
	ResConsecutive bool
	ResSynchronous bool
}

func (*Copy) Op() Op { return OpCopy }

func (o *Copy) AppendArgs(w *xdr.Writer) {
	o.From.append(w)
	o.To.append(w)
	w.Uint64(o.FromOffset)
	w.Uint64(o.ToOffset)
	w.Uint64(o.Count)
	w.Bool(o.Consecutive)
	w.Bool(o.Synchronous)
	w.Uint32(uint32(len(o.Sources)))
	for i := range o.Sources {
		o.Sources[i].append(w)
	}
}

func (o *Copy) ParseArgs(r *xdr.Reader) {
	o.From.parse(r)
	o.To.parse(r)
	o.FromOffset, o.ToOffset, o.Count = r.Uint64(), r.Uint64(), r.Uint64()
	o.Consecutive, o.Synchronous = r.Bool(), r.Bool()
	o.Sources = make([]NetLoc, r.Count(MaxServers))
	for i := range o.Sources {
		o.Sources[i].parse(r)
	}
}

func (o *Copy) AppendRes(w *xdr.Writer, st Status) {
	switch st {
	case OK:
		w.Bool(o.HasCallback) // the length of an array of at most one
		if o.HasCallback {
			o.Callback.append(w)
		}
		w.Uint64(o.Copied)
		w.Uint32(uint32(o.Committed))
		appendVerf(w, o.Verifier)
	case ErrOffloadNoReqs:
	default:
		return
	}
	w.Bool(o.ResConsecutive)
	w.Bool(o.ResSynchronous)
}

func (o *Copy) ParseRes(r *xdr.Reader, st Status) {
	switch st {
	case OK:
		if o.HasCallback = r.Count(1) == 1; o.HasCallback {
			o.Callback.parse(r)
		}
		o.Copied, o.Committed, o.Verifier = r.Uint64(), parseStable(r), parseVerf(r)
	case ErrOffloadNoReqs:
	default:
		return
	}
	o.ResConsecutive, o.ResSynchronous = r.Bool(), r.Bool()
}

func (*Copy) ReplyMax() int { return sizeOp + 4 + sizeStateid + 8 + 4 + sizeVerf + 4 + 4 }

// OffloadStatus is OFFLOAD_STATUS (section 15.9).
type OffloadStatus struct {
	Stateid Stateid
	// Results: how much was copied and, if Complete, with what outcome.
	Copied   uint64
	Complete bool
	Outcome  Status
}

func (*OffloadStatus) Op() Op                     { return OpOffloadStatus }
func (o *OffloadStatus) AppendArgs(w *xdr.Writer) { o.Stateid.append(w) }
func (o *OffloadStatus) ParseArgs(r *xdr.Reader)  { o.Stateid.parse(r) }

func (o *OffloadStatus) AppendRes(w *xdr.Writer, st Status) {
	if st != OK {
		return
	}
	w.Uint64(o.Copied)
	w.Bool(o.Complete) // the length of an array of at most one
	if o.Complete {
		w.Uint32(uint32(o.Outcome))
	}
}

func (o *OffloadStatus) ParseRes(r *xdr.Reader, st Status) {
	if st != OK {
		return
	}
	o.Copied = r.Uint64()
	if o.Complete = r.Count(1) == 1; o.Complete {
		o.Outcome = Status(r.Uint32())
	}
}

func (*OffloadStatus) ReplyMax() int { return sizeOp + 8 + 4 + 4 }

// OffloadCancel is OFFLOAD_CANCEL (section 15.8).
type OffloadCancel struct {
	noRes
	Stateid Stateid
}

func (*OffloadCancel) Op() Op                     { return OpOffloadCancel }
func (o *OffloadCancel) AppendArgs(w *xdr.Writer) { o.Stateid.append(w) }
func (o *OffloadCancel) ParseArgs(r *xdr.Reader)  { o.Stateid.parse(r) }

// Clone is CLONE (section 15.13), from the saved filehandle to the current one. Count 0
// means to the end of the source.
type Clone struct {
	noRes
	From, To             Stateid
	FromOffset, ToOffset uint64
	Count                uint64
}

func (*Clone) Op() Op { return OpClone }

func (o *Clone) AppendArgs(w *xdr.Writer) {
	o.From.append(w)
	o.To.append(w)
	w.Uint64(o.FromOffset)
	w.Uint64(o.ToOffset)
	w.Uint64(o.Count)
}

func (o *Clone) ParseArgs(r *xdr.Reader) {
	o.From.parse(r)
	o.To.parse(r)
	o.FromOffset, o.ToOffset, o.Count = r.Uint64(), r.Uint64(), r.Uint64()
}
