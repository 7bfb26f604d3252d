package rpcrdma

import "github.com/rdmafs/rdmafs/transport/rpcrdma/wire"

// propsState is where our request for a change of the peer's receive size stands.
type propsState uint8

const (
	// propsUnknown: the peer has not announced its properties.
	propsUnknown propsState = iota
	// propsAsked: it has, and a request is outstanding.
	propsAsked
	// propsSettled: it has, and there is nothing to ask, any more.
	propsSettled
	propsStates
)

// propsEvent is what moves a propsState.
type propsEvent uint8

const (
	propsSuit   propsEvent = iota // the peer's properties suit us, or are not to change
	propsDiffer                   // they could be better
	propsAnswer                   // our request is answered
	propsEvents
)

var propsNext = [propsStates][propsEvents]propsState{
	propsUnknown: {propsSettled, propsAsked, propsUnknown},
	propsAsked:   {propsAsked, propsAsked, propsSettled},
	propsSettled: {propsSettled, propsSettled, propsSettled},
}

// received takes a message about properties. An error ends the connection.
func (p *props) received(m wire.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m := m.(type) {
	case *wire.ConnProp:
		return p.introduced(m)
	case *wire.UpdProp:
		p.learn(&m.Props)
	case *wire.ReqProp:
		return p.push(p.respond(m))
	case *wire.ResProp:
		if p.state == propsAsked && m.XID == p.askedXID {
			p.answered(m)
		}
	}
	return nil
}

// introduced takes RDMA2_CONNPROP (section 6.3.1): what it does not mention has
// its default and does not change. The peer is asked for a receive size that
// suits the longest message that this end makes: a larger one saves chunks, a
// smaller one the peer's memory. p.mu is held.
func (p *props) introduced(h *wire.ConnProp) error {
	p.peerSize, p.peerBackward = wire.DefaultInline2, wire.BackwardInline
	p.learn(&h.Props)
	changes := false
	for i, v := range h.Props.All() {
		if v.ID == wire.PropReceiveSize {
			changes = !h.NoChange.Has(i)
		}
	}
	want := max(p.sendMax, wire.DefaultInline2)
	if p.state != propsUnknown || !changes || want == p.peerSize {
		p.state = propsNext[p.state][propsSuit]
		return nil
	}
	p.state = propsNext[p.state][propsDiffer]
	ask := &wire.ReqProp{Header: p.header(wire.ProcReqProp)}
	ask.Props.AddUint32(wire.PropReceiveSize, uint32(want))
	p.asked, p.askedXID = want, ask.XID
	return p.push(ask)
}

// learn takes over what a set says about properties that are known here. No
// receive is smaller than the default: section 3.3.
func (p *props) learn(set *wire.PropSet) {
	for _, v := range set.All() {
		n, _ := v.Uint32()
		switch v.ID {
		case wire.PropReceiveSize:
			p.peerSize = max(int(n), wire.DefaultInline2)
		case wire.PropBackward:
			p.peerBackward = wire.BackwardSupport(n)
		}
	}
}

// respond makes the RDMA2_RESPROP to a request (section 6.3.3).
func (p *props) respond(req *wire.ReqProp) *wire.ResProp {
	h := &wire.ResProp{Header: wire.Header{XID: req.XID, Version: Version2, Proc: wire.ProcResProp}}
	sized := false
	for i, v := range req.Props.All() {
		want, _ := v.Uint32()
		switch {
		case v.ID == wire.PropReceiveSize && !sized && p.size == p.promised:
			sized = true
			if now := p.resize(int(want)); now == int(want) {
				h.Done.Set(i)
			} else {
				h.Props.AddUint32(wire.PropReceiveSize, uint32(now))
			}
		case v.ID == wire.PropBackward && want == uint32(p.backward):
			h.Done.Set(i)
		default:
			h.Rejected.Set(i)
		}
	}
	return h
}

// resize makes the receive size as near to want as can be, and returns the size
// that the peer may count on from now on (section 6.2.1). A lower one it may, and
// does already, because it has asked for it. A higher one it may not as long as
// there are receives of the old size: took announces it later.
func (p *props) resize(want int) int {
	p.resized.Store(true)
	p.size = min(max(want, wire.DefaultInline2), p.receiveMax)
	p.stale = 0
	for _, n := range p.posted {
		if n > 0 && n < p.size {
			p.stale++
		}
	}
	if p.stale == 0 {
		p.promised = p.size
	}
	return p.promised
}

// answered takes the RDMA2_RESPROP to our request, which was for one property.
// Unless exactly one of done, rejected and other speaks of it, it counts as
// rejected (section 6.3.3).
func (p *props) answered(h *wire.ResProp) {
	p.state = propsNext[p.state][propsAnswer]
	other, says := 0, 0
	for _, v := range h.Props.All() {
		if v.ID == wire.PropReceiveSize {
			n, _ := v.Uint32()
			other = max(int(n), wire.DefaultInline2)
			says++
		}
	}
	done := h.Done.Has(0)
	if done {
		says++
	}
	if h.Rejected.Has(0) {
		says++
	}
	switch {
	case says != 1:
	case done:
		p.peerSize = p.asked
	case other > 0:
		p.peerSize = other
	}
}

// refused takes an error, and reports whether its XID is that of a message of
// ours: the peer does not have that operation, and nothing changes.
func (p *props) refused(xid uint32) (ours bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == propsAsked && xid == p.askedXID {
		p.state = propsNext[p.state][propsAnswer]
	}
	return p.begun && xid != p.base && xid-p.base <= p.xid-p.base
}
