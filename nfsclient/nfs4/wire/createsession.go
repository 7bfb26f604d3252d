package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// Flags of CREATE_SESSION (RFC 8881 section 18.36).
const (
	SessionPersist      = 1
	SessionConnBackChan = 2
	SessionConnRDMA     = 4
)

// Security flavors of callbacks and of SECINFO.
const (
	AuthNone  = 0
	AuthSys   = 1
	RPCSecGSS = 6
)

// Channel is channel_attrs4. IRD holds if HasIRD.
type Channel struct {
	HeaderPad         uint32
	MaxRequest        uint32
	MaxResponse       uint32
	MaxResponseCached uint32
	MaxOps            uint32
	MaxRequests       uint32
	HasIRD            bool
	IRD               uint32
}

func (c *Channel) append(w *xdr.Writer) {
	w.Uint32(c.HeaderPad)
	w.Uint32(c.MaxRequest)
	w.Uint32(c.MaxResponse)
	w.Uint32(c.MaxResponseCached)
	w.Uint32(c.MaxOps)
	w.Uint32(c.MaxRequests)
	w.Bool(c.HasIRD) // the length of an array of at most one
	if c.HasIRD {
		w.Uint32(c.IRD)
	}
}

func (c *Channel) parse(r *xdr.Reader) {
	c.HeaderPad, c.MaxRequest, c.MaxResponse = r.Uint32(), r.Uint32(), r.Uint32()
	c.MaxResponseCached, c.MaxOps, c.MaxRequests = r.Uint32(), r.Uint32(), r.Uint32()
	c.HasIRD, c.IRD = r.Count(1) == 1, 0
	if c.HasIRD {
		c.IRD = r.Uint32()
	}
}

// SecParms is callback_sec_parms4. The fields from Stamp on hold with AuthSys, the last
// three with RPCSecGSS.
type SecParms struct {
	Flavor   uint32
	Stamp    uint32
	Machine  string
	UID, GID uint32
	GIDs     []uint32

	Service                        uint32
	HandleFromServer, HandleOfOurs string
}

func (p *SecParms) append(w *xdr.Writer) {
	w.Uint32(p.Flavor)
	switch p.Flavor {
	case AuthSys:
		w.Uint32(p.Stamp)
		w.String(p.Machine)
		w.Uint32(p.UID)
		w.Uint32(p.GID)
		w.Uint32(uint32(len(p.GIDs)))
		for _, g := range p.GIDs {
			w.Uint32(g)
		}
	case RPCSecGSS:
		w.Uint32(p.Service)
		w.String(p.HandleFromServer)
		w.String(p.HandleOfOurs)
	}
}

func (p *SecParms) parse(r *xdr.Reader) {
	switch p.Flavor = r.Uint32(); p.Flavor {
	case AuthNone:
	case AuthSys:
		p.Stamp, p.Machine, p.UID, p.GID = r.Uint32(), r.String(MaxMachine), r.Uint32(), r.Uint32()
		for range r.Count(MaxGIDs) {
			p.GIDs = append(p.GIDs, r.Uint32())
		}
	case RPCSecGSS:
		p.Service = r.Uint32()
		p.HandleFromServer, p.HandleOfOurs = r.String(MaxGSSHandle), r.String(MaxGSSHandle)
	default:
		r.Fail("security flavor %d of callbacks", p.Flavor)
	}
}

// CreateSession is CREATE_SESSION.
type CreateSession struct {
	ClientID   ClientID
	SequenceID uint32
	Flags      uint32
	Fore, Back Channel
	CBProgram  uint32
	SecParms   []SecParms
	// Results.
	Session          SessionID
	ResSequenceID    uint32
	ResFlags         uint32
	ResFore, ResBack Channel
}

func (*CreateSession) Op() Op { return OpCreateSession }

func (o *CreateSession) AppendArgs(w *xdr.Writer) {
	w.Uint64(uint64(o.ClientID))
	w.Uint32(o.SequenceID)
	w.Uint32(o.Flags)
	o.Fore.append(w)
	o.Back.append(w)
	w.Uint32(o.CBProgram)
	w.Uint32(uint32(len(o.SecParms)))
	for i := range o.SecParms {
		o.SecParms[i].append(w)
	}
}

func (o *CreateSession) ParseArgs(r *xdr.Reader) {
	o.ClientID, o.SequenceID, o.Flags = ClientID(r.Uint64()), r.Uint32(), r.Uint32()
	o.Fore.parse(r)
	o.Back.parse(r)
	o.CBProgram = r.Uint32()
	o.SecParms = make([]SecParms, r.Count(MaxSecParms))
	for i := range o.SecParms {
		o.SecParms[i].parse(r)
	}
}

func (o *CreateSession) AppendRes(w *xdr.Writer, st Status) {
	if st != OK {
		return
	}
	o.Session.append(w)
	w.Uint32(o.ResSequenceID)
	w.Uint32(o.ResFlags)
	o.ResFore.append(w)
	o.ResBack.append(w)
}

func (o *CreateSession) ParseRes(r *xdr.Reader, st Status) {
	if st != OK {
		return
	}
	o.Session.parse(r)
	o.ResSequenceID, o.ResFlags = r.Uint32(), r.Uint32()
	o.ResFore.parse(r)
	o.ResBack.parse(r)
}

func (*CreateSession) ReplyMax() int { return sizeOp + sizeSession + 4 + 4 + 2*sizeChannel }
