package rpcrdma

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
)

// props is one end's part in the exchange of transport properties (the draft,
// section 6). It says with which size receives are posted and how long messages
// to the peer may be, takes what the peer sends about properties, and makes the
// messages about properties that are due. Those it keeps until next is called
// for them. The zero of a connection on which nobody speaks version 2 is one
// whose receives have their full size.
type props struct {
	// receiveMax is the size of the receive buffers, sendMax that of the
	// longest message this end makes of itself.
	receiveMax, sendMax int
	backward            wire.BackwardSupport

	// resized is set when the receive size is changed for the first time. Receives posted until then have receiveMax.
	resized atomic.Bool

	mu sync.Mutex
	// state is that of our request to the peer; asked is the size requested,
	// under askedXID.
	state    propsState
	asked    int
	askedXID uint32
	// announced is set when our properties have been sent.
	begun, announced bool

	// What the peer has announced, or else the defaults.
	peerSize     int
	peerBackward wire.BackwardSupport

	// size is that of receives posted from now on, promised what the peer may
	// count on. posted is the size of each receive that was posted since it
	// was resized and waits for a message, 0 for others, stale the number of them shorter than size.
	size, promised int
	posted         []int
	stale          int

	// Our own messages have the XIDs that follow base, up to xid.
	base, xid uint32
	out       []wire.Message
}

// maxPropsOut bounds the messages that wait to be sent. A peer that makes more
// due takes none.
const maxPropsOut = 16

var errPropsFlood = fmt.Errorf("%w: property messages come faster than their answers are taken", transport.ErrProtocol)

// newProps is for a connection with that many receive buffers of receiveMax bytes.
func newProps(receives, receiveMax, sendMax int, backward wire.BackwardSupport) *props {
	return &props{
		receiveMax: receiveMax, sendMax: sendMax, backward: backward,
		size: receiveMax, promised: receiveMax, posted: make([]int, receives),
		peerSize: wire.DefaultInline2, peerBackward: wire.BackwardInline,
	}
}

// backwardSupport is what an end receives of the backward direction if it takes
// part in it at all: everything.
func backwardSupport(takes bool) wire.BackwardSupport {
	if takes {
		return wire.BackwardGeneral
	}
	return wire.BackwardNone
}

// post returns the size with which receive buffer id is to be posted now.
func (p *props) post(id int) int {
	if !p.resized.Load() {
		return p.receiveMax
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.posted[id] = p.size
	return p.size
}

// took records that a message came into receive buffer id. When it was the last
// one of an old, smaller size, the new one may be announced to the peer (section
// 6.2.1), and a message is due.
func (p *props) took(id int) (due bool) {
	if !p.resized.Load() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.posted[id]
	p.posted[id] = 0
	if n == 0 || n >= p.size || p.stale == 0 {
		return false
	}
	if p.stale--; p.stale > 0 {
		return false
	}
	m := &wire.UpdProp{Header: p.header(wire.ProcUpdProp)}
	m.Props.AddUint32(wire.PropReceiveSize, uint32(p.size))
	// Beyond maxPropsOut, if need be: one raise is announced at a time.
	p.out = append(p.out, m)
	return true
}

// begin makes our properties due, the first time that it is called. Messages
// about properties have the XIDs that follow xid.
func (p *props) begin(xid uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun {
		return
	}
	p.begun, p.base, p.xid = true, xid, xid
	m := &wire.ConnProp{Header: p.header(wire.ProcConnProp)}
	m.Props.AddUint32(wire.PropReceiveSize, uint32(p.promised))
	m.Props.AddUint32(wire.PropBackward, uint32(p.backward))
	m.NoChange.Set(1)
	p.out = append(p.out, m)
}

// header starts a message of our own. p.mu is held.
func (p *props) header(proc wire.Proc) wire.Header {
	p.xid++
	return wire.Header{XID: p.xid, Version: Version2, Proc: proc}
}

// next takes the next message to be sent, and returns nil if there is none.
func (p *props) next() wire.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.out) == 0 {
		return nil
	}
	m := p.out[0]
	p.out = append(p.out[:0], p.out[1:]...)
	return m
}

// sent records that what next returned has been sent.
func (p *props) sent(m wire.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m.(type) {
	case *wire.ConnProp:
		p.announced = true
	case *wire.UpdProp:
		p.promised = p.size
	}
}

// answer makes a message due that answers one of the peer's.
func (p *props) answer(m wire.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.push(m)
}

// push is answer. p.mu is held.
func (p *props) push(m wire.Message) error {
	if len(p.out) >= maxPropsOut {
		return errPropsFlood
	}
	p.out = append(p.out, m)
	return nil
}

// sendLimit is the longest that a message to the peer may be. While a lower size
// is being asked for, that holds already (section 6.2.1).
func (p *props) sendLimit() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.peerSize
	if p.state == propsAsked {
		n = min(n, p.asked)
	}
	return min(n, p.sendMax)
}

// receiveLimit is the length of the longest message that the peer is known to
// know it may send: the default unless it, too, exchanges properties.
func (p *props) receiveLimit() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.announced || p.state == propsUnknown {
		return min(wire.DefaultInline2, p.promised)
	}
	return p.promised
}

// propsInForce is what holds at a moment: how long messages may be, and what both
// ends have announced.
type propsInForce struct {
	send, receive, promised, peer int
	backward, peerBackward        wire.BackwardSupport
}

func (p *props) inForce() propsInForce {
	send, receive := p.sendLimit(), p.receiveLimit()
	p.mu.Lock()
	defer p.mu.Unlock()
	return propsInForce{send, receive, p.promised, p.peerSize, p.backward, p.peerBackward}
}

// peerTakes is what of the backward direction the peer receives.
func (p *props) peerTakes() wire.BackwardSupport {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peerBackward
}
