package wire

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// CBNotifyLock is CB_NOTIFY_LOCK (RFC 8881 section 20.11): a lock that was denied may be had now.
type CBNotifyLock struct {
	noRes
	Handle nfsclient.Handle
	Owner  Owner
}

func (*CBNotifyLock) Op() CBOp { return OpCBNotifyLock }

func (o *CBNotifyLock) AppendArgs(w *xdr.Writer) {
	appendHandle(w, o.Handle)
	o.Owner.append(w)
}

func (o *CBNotifyLock) ParseArgs(r *xdr.Reader) {
	parseHandle(r, &o.Handle)
	o.Owner.parse(r)
}

// CBOffload is CB_OFFLOAD (RFC 7862 section 16.1): a COPY that went on by itself has ended.
type CBOffload struct {
	noRes
	Handle nfsclient.Handle
	// Stateid is the one that COPY was answered with.
	Stateid Stateid
	Outcome Status
	// Copied is how much was copied, whatever Outcome. The rest holds with OK.
	Copied      uint64
	HasCallback bool
	Callback    Stateid
	Committed   nfsclient.Stable
	Verifier    nfsclient.Verifier
}

func (*CBOffload) Op() CBOp { return OpCBOffload }

func (o *CBOffload) AppendArgs(w *xdr.Writer) {
	appendHandle(w, o.Handle)
	o.Stateid.append(w)
	w.Uint32(uint32(o.Outcome))
	if o.Outcome != OK {
		w.Uint64(o.Copied)
		return
	}
	w.Bool(o.HasCallback) // the length of an array of at most one
	if o.HasCallback {
		o.Callback.append(w)
	}
	w.Uint64(o.Copied)
	w.Uint32(uint32(o.Committed))
	appendVerf(w, o.Verifier)
}

func (o *CBOffload) ParseArgs(r *xdr.Reader) {
	parseHandle(r, &o.Handle)
	o.Stateid.parse(r)
	if o.Outcome = Status(r.Uint32()); o.Outcome != OK {
		o.Copied = r.Uint64()
		return
	}
	if o.HasCallback = r.Count(1) == 1; o.HasCallback {
		o.Callback.parse(r)
	}
	o.Copied, o.Committed, o.Verifier = r.Uint64(), parseStable(r), parseVerf(r)
}
