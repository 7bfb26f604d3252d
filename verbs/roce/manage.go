package roce

import (
	"net/netip"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/roce/cm"
	"github.com/rdmafs/rdmafs/verbs/roce/packet"
	"github.com/rdmafs/rdmafs/verbs/roce/rc"
	"github.com/rdmafs/rdmafs/verbs/roce/udp"
)

// The queue pair and key of connection management.
const (
	cmQPN  = 1
	cmQKey = 0x80010000
)

const (
	// ackTimeout is 4.096 µs << 15, 134 ms: after what time a peer should send
	// again, and in what time this side answers at the latest.
	ackTimeout = 15
	// retries of a peer have no limit of rxe's.
	retries = 7
	// notReady is how often either side tries again when the other has no
	// receive posted.
	notReady = 6
)

// side is what this side of c says of itself.
func (c *conn) side(readsIn, readsOut, mtu int) cm.Side {
	s := cm.Side{
		QPN: c.qpn, PSN: uint32(c.psn), ReadsIn: uint8(readsIn), ReadsOut: uint8(readsOut),
		AckTimeout: ackTimeout, Retry: retries, RNRRetry: notReady,
	}
	for n := 256; n <= mtu; n *= 2 {
		s.MTU++
	}
	return s
}

// dispatch carries out the events of the connection manager and sends its
// datagrams. cmMu is held.
func (p *port) dispatch() {
	events, out := p.cm.Take()
	for i := range events {
		p.carryOut(&events[i])
	}
	for i := range out {
		p.datagram(&out[i])
	}
	if p.cmBatch.Len() > 0 {
		p.sock.Send(&p.cmBatch) // a datagram that cannot be sent counts as lost
	}
	if at := p.cm.Deadline(); !at.IsZero() {
		p.arm(at.Sub(p.start))
	}
}

func (p *port) datagram(d *cm.Datagram) {
	path, err := udp.NewPath(d.From, d.To)
	if err != nil {
		return // no host has such an address
	}
	h := packet.Header{Op: packet.DatagramSend, PKey: packet.DefaultPKey, DestQP: cmQPN,
		DETH: packet.DETH{QKey: cmQKey, SrcQP: cmQPN}}
	var b [udp.MaxHead]byte
	if p.cmBatch.Full() {
		p.sock.Send(&p.cmBatch)
	}
	p.cmBatch.Add(path, append(h.Append(b[:0]), d.MAD...), nil)
}

// manage takes a datagram to queue pair 1.
func (p *port) manage(from, to netip.Addr, h *packet.Header, mad []byte) {
	if h.Op != packet.DatagramSend || h.DETH.QKey != cmQKey || h.PKey|pkeyFull != packet.DefaultPKey {
		return
	}
	p.cmMu.Lock()
	defer p.cmMu.Unlock()
	p.cm.Receive(time.Now(), from, to, mad)
	p.dispatch()
}

// tick runs the timers of the connection manager.
func (p *port) tick() {
	p.cmMu.Lock()
	defer p.cmMu.Unlock()
	p.cm.Tick(time.Now())
	p.dispatch()
}

// heard reports to the connection manager that the peer of c has sent a request.
func (p *port) heard(c *conn) {
	p.cmMu.Lock()
	defer p.cmMu.Unlock()
	p.cm.Heard(time.Now(), c.id)
	p.dispatch()
}

// part reports to the connection manager, and by it to the peer, that c is over.
func (p *port) part(c *conn) {
	p.cmMu.Lock()
	defer p.cmMu.Unlock()
	if p.conns[c.id] == c {
		delete(p.conns, c.id)
		p.cm.Close(time.Now(), c.id)
	}
	p.dispatch()
}

// known routes events of id to c. cmMu is held.
func (p *port) known(c *conn, id cm.ID) {
	p.conns[id] = c
	c.mu.Lock()
	c.id = id
	c.mu.Unlock()
}

// carryOut does what an event calls for. cmMu is held.
func (p *port) carryOut(e *cm.Event) {
	if e.Kind == cm.Requested {
		p.requested(e)
		return
	}
	c := p.conns[e.ID]
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := p.now()
	switch e.Kind {
	case cm.Connected:
		c.established = true
		c.private, c.readsOut = e.Private, int(e.ReadsOut)
		c.connect(now, &e.Peer, e.ReadsIn, e.ReadsOut, c.mtu)
		c.q.Establish()
		c.outcome <- nil
	case cm.Established:
		c.established = true
		c.q.Establish()
		c.flush(now)
	case cm.Failed, cm.Disconnected:
		delete(p.conns, e.ID)
		c.parted = true
		if c.q.State() == rc.Idle {
			c.outcome <- e.Err
			return
		}
		c.fail("transfer", e.Err)
	}
}

// connect makes the peer known to the queue pair. mu is held.
func (c *conn) connect(now time.Duration, peer *cm.Side, readsIn, readsOut uint8, mtu int) {
	c.q.Connect(now, rc.Peer{
		QPN: peer.QPN, MTU: mtu,
		SendPSN: packet.PSN(peer.PSN), RecvPSN: c.psn,
		ReadsIn: int(readsIn), ReadsOut: int(readsOut),
		RNRRetries: max(notReady, int(peer.RNRRetry)), Room: int(c.port.share.Load()),
	})
}

// requested hands a request to its listener.
func (p *port) requested(e *cm.Event) {
	l := p.listeners[e.Local]
	if l == nil {
		all := netip.IPv4Unspecified()
		if e.Local.Addr().Is6() {
			all = netip.IPv6Unspecified()
		}
		l = p.listeners[netip.AddrPortFrom(all, e.Local.Port())]
	}
	if l != nil && l.backlog.Add(&request{l: l, id: e.ID, local: e.Local, remote: e.Remote, peer: e.Peer, private: e.Private}) {
		return
	}
	p.cm.Close(time.Now(), e.ID)
}

// dialError is err as Dial returns it.
func dialError(to netip.AddrPort, err error) error {
	return &verbs.ConnError{Op: "dial", Remote: to, Err: err}
}
