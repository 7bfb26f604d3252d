package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// DelegType is open_delegation_type4.
type DelegType uint32

const (
	DelegNone    DelegType = 0
	DelegRead    DelegType = 1
	DelegWrite   DelegType = 2
	DelegNoneExt DelegType = 3
)

// Reasons for no delegation that say more (why_no_delegation4).
const (
	whyContention = 1
	whyResource   = 2
)

// Ways to limit how much may be written under a delegation (limit_by4).
const (
	LimitSize   = 1
	LimitBlocks = 2
)

// Delegation is open_delegation4 (RFC 8881 section 18.16). The fields behind Type hold
// with DelegRead and DelegWrite, the limit with DelegWrite, the last two with DelegNoneExt.
type Delegation struct {
	Type    DelegType
	Stateid Stateid
	Recall  bool
	// LimitBy says whether Limit is bytes or two 32-bit numbers, of blocks and of
	// bytes in each.
	LimitBy uint32
	Limit   uint64
	ACE     ACE
	Why     uint32
	// Will: the server will push, or signal, a delegation.
	Will bool
}

func (d *Delegation) append(w *xdr.Writer) {
	w.Uint32(uint32(d.Type))
	switch d.Type {
	case DelegRead, DelegWrite:
		d.Stateid.append(w)
		w.Bool(d.Recall)
		if d.Type == DelegWrite {
			w.Uint32(d.LimitBy)
			w.Uint64(d.Limit)
		}
		d.ACE.append(w)
	case DelegNoneExt:
		w.Uint32(d.Why)
		if d.Why == whyContention || d.Why == whyResource {
			w.Bool(d.Will)
		}
	}
}

func (d *Delegation) parse(r *xdr.Reader) {
	d.Type = DelegType(parseEnum(r, "open_delegation_type4", 0, uint32(DelegNoneExt)))
	switch d.Type {
	case DelegRead, DelegWrite:
		d.Stateid.parse(r)
		d.Recall = r.Bool()
		if d.Type == DelegWrite {
			d.LimitBy, d.Limit = parseEnum(r, "limit_by4", LimitSize, LimitBlocks), r.Uint64()
		}
		d.ACE.parse(r)
	case DelegNoneExt:
		if d.Why = r.Uint32(); d.Why == whyContention || d.Why == whyResource {
			d.Will = r.Bool()
		}
	}
}

// DelegReturn is DELEGRETURN (section 18.6).
type DelegReturn struct {
	noRes
	Stateid Stateid
}

func (*DelegReturn) Op() Op                     { return OpDelegReturn }
func (o *DelegReturn) AppendArgs(w *xdr.Writer) { o.Stateid.append(w) }
func (o *DelegReturn) ParseArgs(r *xdr.Reader)  { o.Stateid.parse(r) }
