package rpcrdma

import (
	"fmt"
	"sync"

	"github.com/rdmafs/rdmafs/transport"
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
	backward            BackwardSupport

	mu sync.Mutex
	// state is that of our request to the peer; asked is the size requested,
	// under askedXID.
	state    propsState
	asked    int
	askedXID uint32
	// announced is set when our properties have been sent.
	begun, announced bool

	// What the peer has told, or else the defaults.
	peerSize     int
	peerBackward BackwardSupport

	// size is that of receives posted from now on, told what the peer may
	// count on. posted is the size of each receive that waits for a message, 0
	// for those that do not wait, stale the number of them shorter than size.
	size, told int
	posted     []int
	stale      int

	// Our own messages have the XIDs that follow base, up to xid.
	base, xid uint32
	out       []Header
}

// maxPropsOut bounds the messages that wait to be sent. A peer that makes more
// due takes none.
const maxPropsOut = 16

var errPropsFlood = fmt.Errorf("%w: property messages come faster than their answers are taken", transport.ErrProtocol)

// newProps is for a connection with that many receive buffers of receiveMax bytes.
func newProps(receives, receiveMax, sendMax int, backward BackwardSupport) *props {
	return &props{
		receiveMax: receiveMax, sendMax: sendMax, backward: backward,
		size: receiveMax, told: receiveMax, posted: make([]int, receives),
		peerSize: DefaultInline2, peerBackward: BackwardInline,
	}
}

// backwardSupport is what an end receives of the backward direction if it takes
// part in it at all: everything.
func backwardSupport(takes bool) BackwardSupport {
	if takes {
		return BackwardGeneral
	}
	return BackwardNone
}

// post returns the size with which receive buffer id is to be posted now.
func (p *props) post(id int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.posted[id] = p.size
	return p.size
}

// took notes that a message came into receive buffer id. When it was the last
// one of an old, smaller size, the peer may be told of the new one (section
// 6.2.1), and a message is due.
func (p *props) took(id int) (due bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.posted[id]
	p.posted[id] = 0
	if n >= p.size || p.stale == 0 {
		return false
	}
	if p.stale--; p.stale > 0 {
		return false
	}
	h := p.header(UpdProp)
	h.Props.AddUint32(PropReceiveSize, uint32(p.size))
	// Beyond maxPropsOut, if need be: one raise is under way at a time.
	p.out = append(p.out, h)
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
	h := p.header(ConnProp)
	h.Props.AddUint32(PropReceiveSize, uint32(p.told))
	h.Props.AddUint32(PropBackward, uint32(p.backward))
	h.NoChange.Set(1)
	p.out = append(p.out, h)
}

// header starts a message of our own. p.mu is held.
func (p *props) header(proc Proc) Header {
	p.xid++
	return Header{XID: p.xid, Version: Version2, Proc: proc}
}

// next takes the next message to be sent.
func (p *props) next() (h Header, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.out) == 0 {
		return Header{}, false
	}
	h = p.out[0]
	p.out = append(p.out[:0], p.out[1:]...)
	return h, true
}

// sent notes that what next returned has been sent.
func (p *props) sent(h *Header) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch h.Proc {
	case ConnProp:
		p.announced = true
	case UpdProp:
		p.told = p.size
	}
}

// answer makes a message due that answers one of the peer's.
func (p *props) answer(h Header) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.push(h)
}

// push is answer. p.mu is held.
func (p *props) push(h Header) error {
	if len(p.out) >= maxPropsOut {
		return errPropsFlood
	}
	p.out = append(p.out, h)
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
		return min(DefaultInline2, p.told)
	}
	return p.told
}

// propsInForce is what holds at a moment: how long messages may be, and what both
// ends have told.
type propsInForce struct {
	send, receive, told, peer int
	backward, peerBackward    BackwardSupport
}

func (p *props) inForce() propsInForce {
	send, receive := p.sendLimit(), p.receiveLimit()
	p.mu.Lock()
	defer p.mu.Unlock()
	return propsInForce{send, receive, p.told, p.peerSize, p.backward, p.peerBackward}
}

// peerTakes tells what of the backward direction the peer receives.
func (p *props) peerTakes() BackwardSupport {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peerBackward
}
