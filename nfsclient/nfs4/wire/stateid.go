package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// TestStateID is TEST_STATEID (RFC 8881 section 18.48).
type TestStateID struct {
	Stateids []Stateid
	// Results: the status of each stateid.
	Statuses []Status
}

func (*TestStateID) Op() Op { return OpTestStateID }

func (o *TestStateID) AppendArgs(w *xdr.Writer) {
	w.Uint32(uint32(len(o.Stateids)))
	for i := range o.Stateids {
		o.Stateids[i].append(w)
	}
}

func (o *TestStateID) ParseArgs(r *xdr.Reader) {
	o.Stateids = make([]Stateid, r.Count(MaxStateids))
	for i := range o.Stateids {
		o.Stateids[i].parse(r)
	}
}

func (o *TestStateID) AppendRes(w *xdr.Writer, st Status) {
	if st != OK {
		return
	}
	w.Uint32(uint32(len(o.Statuses)))
	for _, s := range o.Statuses {
		w.Uint32(uint32(s))
	}
}

// ParseRes refuses results that are not as many as the stateids.
func (o *TestStateID) ParseRes(r *xdr.Reader, st Status) {
	o.Statuses = o.Statuses[:0]
	if st != OK {
		return
	}
	n := r.Count(len(o.Stateids))
	if r.Err() == nil && n != len(o.Stateids) {
		r.Fail("%d statuses of %d stateids", n, len(o.Stateids))
	}
	for ; n > 0; n-- {
		o.Statuses = append(o.Statuses, Status(r.Uint32()))
	}
}

func (o *TestStateID) ReplyMax() int { return sizeOp + 4 + 4*len(o.Stateids) }

// FreeStateID is FREE_STATEID (section 18.38).
type FreeStateID struct {
	noRes
	Stateid Stateid
}

func (*FreeStateID) Op() Op                     { return OpFreeStateID }
func (o *FreeStateID) AppendArgs(w *xdr.Writer) { o.Stateid.append(w) }
func (o *FreeStateID) ParseArgs(r *xdr.Reader)  { o.Stateid.parse(r) }
