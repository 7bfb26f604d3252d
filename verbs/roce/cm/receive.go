package cm

import (
	"net/netip"
	"time"
)

// The range of the codes of the path MTU.
const (
	minMTU = 1
	maxMTU = 5
)

// Receive takes a datagram that came to queue pair 1, borrowing it. What is
// malformed, or not of the connection that it names, changes nothing.
func (m *Manager) Receive(now time.Time, from, to netip.Addr, mad []byte) {
	h, err := ParseHeader(mad)
	if err != nil {
		return
	}
	a := arrival{m: m, now: now, from: from, to: to, tid: h.TID}
	switch h.Attr {
	case AttrREQ:
		a.req(mad)
	case AttrMRA:
		a.mra(mad)
	case AttrREJ:
		a.rej(mad)
	case AttrREP:
		a.rep(mad)
	case AttrRTU:
		if r, err := ParseRTU(mad); err == nil {
			a.pair(inRTU, r.CommID, r.RemoteID)
		}
	case AttrDREQ:
		a.dreq(mad)
	case AttrDREP:
		if r, err := ParseDREP(mad); err == nil {
			a.pair(inDREP, r.CommID, r.RemoteID)
		}
	}
}

// arrival is a datagram on its way into the table.
type arrival struct {
	m        *Manager
	now      time.Time
	from, to netip.Addr
	tid      uint64
}

// conn is the connection of ours that the datagram names, if it comes from
// its peer.
func (a *arrival) conn(id uint32) *conn {
	c := a.m.conns[ID(id)]
	if c == nil || c.remote.Addr() != a.from {
		return nil
	}
	return c
}

// pair steps a connection whose two IDs are right.
func (a *arrival) pair(in input, peerID, id uint32) {
	if c := a.conn(id); c != nil && c.peerID == peerID {
		a.m.step(c, &happening{input: in, now: a.now, tid: a.tid})
	}
}

// refuse answers a message for which there is no connection.
func (a *arrival) refuse(peerID uint32, of uint8, why Reason) {
	r := REJ{RemoteID: peerID, Of: of, Reason: why}
	a.m.out = append(a.m.out, Datagram{From: a.to, To: a.from, MAD: r.Append(nil, a.tid)})
}

func (a *arrival) req(mad []byte) {
	r, err := ParseREQ(mad)
	if err != nil {
		a.refuse(r.CommID, OfREQ, ReasonUnsupported)
		return
	}
	// The path of the connection is the path of the request: a sender cannot
	// make us send to a third party.
	if r.LocalGID != a.from || r.RemoteGID != a.to {
		a.refuse(r.CommID, OfREQ, ReasonGID)
		return
	}
	if c := a.m.passive[peerKey{a.from, r.CAGUID, r.CommID}]; c != nil {
		a.m.step(c, &happening{input: inREQ, now: a.now, tid: a.tid})
		return
	}
	if why := a.admit(&r); why != 0 {
		a.refuse(r.CommID, OfREQ, why)
		return
	}
	local := netip.AddrPortFrom(a.to, uint16(r.ServiceID))
	l := a.m.listenerFor(local)
	if l.pending >= l.backlog {
		return // it will ask again
	}
	c := &conn{
		local: local, remote: netip.AddrPortFrom(a.from, r.Addresses.SrcPort),
		tid: a.tid, peerID: r.CommID, peerGUID: r.CAGUID,
		peer: Side{
			QPN: r.QPN, PSN: r.PSN,
			ReadsIn: r.ResponderResources, ReadsOut: r.InitiatorDepth,
			AckTimeout: r.AckTimeout, Retry: r.RetryCount, RNRRetry: r.RNRRetry, MTU: r.MTU,
		},
		state: reqRcvd, deadline: a.now.Add(stateTimeouts[reqRcvd].first),
	}
	if !a.m.add(c) {
		a.refuse(r.CommID, OfREQ, ReasonNoResources)
		return
	}
	c.listener = l
	l.pending++
	a.m.wakeFor(c)
	a.m.event(Event{Kind: Requested, ID: c.id, Local: c.local, Remote: c.remote, Peer: c.peer, Private: private(r.Private)})
}

// admit says why a new request cannot be granted, or 0.
func (a *arrival) admit(r *REQ) Reason {
	switch {
	case r.ServiceID&^0xffff != portSpaceTCP || a.m.listenerFor(netip.AddrPortFrom(a.to, uint16(r.ServiceID))) == nil:
		return ReasonNoService
	case r.Transport != 0:
		return ReasonTransport
	case r.QPN <= 1 || r.MTU < minMTU || r.MTU > maxMTU:
		return ReasonUnsupported
	}
	if a.reused(r.CAGUID, r.QPN) {
		return ReasonStale
	}
	return 0
}

// reused reports whether the sender has a connection with the same queue
// pair, which is dead then.
func (a *arrival) reused(guid uint64, qpn uint32) bool {
	old := a.m.pairs[pairKey{a.from, guid, qpn}]
	if old != nil {
		a.m.step(old, &happening{input: inStale, now: a.now})
	}
	return old != nil
}

func (a *arrival) mra(mad []byte) {
	r, err := ParseMRA(mad)
	if err != nil {
		return
	}
	c := a.conn(r.RemoteID)
	if c == nil {
		return
	}
	if c.active != (r.Of == OfREQ) || !c.active && r.CommID != c.peerID {
		return
	}
	if c.state == reqSent || c.state == reqWait {
		c.peerID = r.CommID
	}
	a.m.step(c, &happening{input: inMRA, now: a.now, wait: mraWait(r.Timeout)})
}

func (a *arrival) rej(mad []byte) {
	r, err := ParseREJ(mad)
	if err != nil {
		return
	}
	c := a.conn(r.RemoteID)
	if c == nil && r.Reason == ReasonTimeout && len(r.Info) >= 8 {
		// The peer never learned our ID and names the connection by its own.
		c = a.m.passive[peerKey{a.from, be.Uint64(r.Info), r.CommID}]
	}
	if c == nil || c.peerID != 0 && r.CommID != 0 && r.CommID != c.peerID {
		return
	}
	if r.CommID == 0 && (c.state == activeUp || c.state == passiveUp || c.state == dreqSent) {
		return // a peer that rejects an established connection knows both IDs
	}
	a.m.step(c, &happening{input: inREJ, now: a.now, rej: &r})
}

func (a *arrival) rep(mad []byte) {
	r, err := ParseREP(mad)
	if err != nil {
		return
	}
	c := a.m.conns[ID(r.RemoteID)]
	if c == nil {
		// Its sender learns that this side does not wait any more.
		a.refuse(r.CommID, OfREP, ReasonUnknown)
		return
	}
	if !c.active || c.remote.Addr() != a.from {
		return
	}
	if c.state == reqSent || c.state == reqWait {
		if r.QPN <= 1 {
			return
		}
		a.reused(r.CAGUID, r.QPN) // the peer knows best which is the new one
	} else if r.CommID != c.peerID {
		return
	}
	a.m.step(c, &happening{input: inREP, now: a.now, rep: &r})
}

func (a *arrival) dreq(mad []byte) {
	r, err := ParseDREQ(mad)
	if err != nil {
		return
	}
	c := a.m.conns[ID(r.RemoteID)]
	if c == nil {
		// What is over here may not be over there.
		d := DREP{CommID: r.RemoteID, RemoteID: r.CommID}
		a.m.out = append(a.m.out, Datagram{From: a.to, To: a.from, MAD: d.Append(nil, a.tid)})
		return
	}
	if c.remote.Addr() != a.from || r.RemoteQPN != c.mine.QPN {
		return
	}
	if c.peerID != r.CommID {
		if c.state != reqSent && c.state != reqWait {
			return
		}
		c.peerID = r.CommID // its REP was lost
	}
	a.m.step(c, &happening{input: inDREQ, now: a.now, tid: a.tid})
}
