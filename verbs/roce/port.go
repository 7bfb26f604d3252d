package roce

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/verbs/roce/cm"
	"github.com/rdmafs/rdmafs/verbs/roce/packet"
	"github.com/rdmafs/rdmafs/verbs/roce/rc"
	"github.com/rdmafs/rdmafs/verbs/roce/udp"
)

// port is a socket and what shares it.
type port struct {
	sock  *udp.Socket
	start time.Time
	stop  chan struct{}
	run   sync.WaitGroup

	// share is how many bytes of the socket's receive buffer each connection may count on.
	share atomic.Int64

	// inbox belongs to the reader.
	inbox *udp.Inbox

	// cmMu guards the connection manager and its users' state.
	cmMu      sync.Mutex
	cm        *cm.Manager
	conns     map[cm.ID]*conn
	listeners map[netip.AddrPort]*listener
	cmBatch   udp.Batch

	mu     sync.Mutex
	pairs  map[uint32]*conn
	reader reader
	// lost is why the socket is closed, nil while it is not: see abandon.
	lost error

	timerMu sync.Mutex
	timer   *time.Timer
	// alarm is when timer fires.
	alarm time.Duration
}

func newPort(s *udp.Socket) *port {
	p := &port{
		sock:      s,
		start:     time.Now(),
		stop:      make(chan struct{}),
		inbox:     udp.NewInbox(),
		cm:        cm.New(),
		conns:     make(map[cm.ID]*conn),
		listeners: make(map[netip.AddrPort]*listener),
		pairs:     make(map[uint32]*conn),
		timer:     time.NewTimer(time.Hour),
		alarm:     rc.Never,
	}
	p.reader.init()
	p.run.Add(2)
	go p.runRead()
	go p.runTimer()
	return p
}

// close ends a port that is not used any more.
func (p *port) close() {
	close(p.stop)
	p.sock.Close()
	p.run.Wait()
	p.timer.Stop()
	p.reader.idle.Stop()
}

// now is the time as queue pairs know it.
func (p *port) now() time.Duration { return time.Since(p.start) }

// enter gives c a queue pair number and routes its packets to it. cmMu is held.
func (p *port) enter(c *conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.lost == nil {
		// 0, 1 and the last number have a meaning of their own.
		if n := random24(); n > 1 && n < 1<<24-1 && p.pairs[n] == nil && !p.cm.Busy(n) {
			c.qpn = n
			p.pairs[n] = c
			p.divide()
			return nil
		}
	}
	return p.lost
}

// leave undoes enter.
func (p *port) leave(c *conn) {
	p.mu.Lock()
	delete(p.pairs, c.qpn)
	p.divide()
	p.mu.Unlock()
}

// divide divides the socket's receive buffer among the connections. mu is held.
func (p *port) divide() {
	p.share.Store(int64(p.sock.Room() / max(len(p.pairs), 1)))
}

func (p *port) find(qpn uint32) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pairs[qpn]
}

// random24 is for numbers that a third party must not guess.
func random24() uint32 {
	var b [4]byte
	rand.Read(b[:])
	return binary.BigEndian.Uint32(b[:]) >> 8
}

// take passes the packets of the inbox to their connections. self is the
// connection whose Wait reads, which needs no waking; nil if none reads.
func (p *port) take(self *conn) {
	now := p.now()
	var h packet.Header
	var c *conn
	for in := p.inbox.Next(); in != nil; in = p.inbox.Next() {
		payload, err := h.Parse(in.Data)
		if err != nil {
			continue
		}
		if h.DestQP == cmQPN {
			c = c.finish(now, self)
			p.manage(in.From, in.To, &h, payload)
			continue
		}
		if c == nil || c.qpn != h.DestQP {
			c.finish(now, self)
			if c = p.find(h.DestQP); c == nil {
				continue
			}
			c.mu.Lock()
		}
		if in.From == c.remote.Addr() && in.To == c.local.Addr() && h.PKey|pkeyFull == packet.DefaultPKey {
			c.q.Receive(now, &h, payload)
		}
	}
	c.finish(now, self)
}

// pkeyFull is the bit of a partition key that is set for full members: limited
// ones may only talk to those.
const pkeyFull = 0x8000

// finish sends what c has to send, wakes its Wait, and unlocks it. It returns
// nil, and does nothing when c is nil. For self, whose Wait is about to return a
// completion, an acknowledgement is left to be sent with what the user posts
// next. mu is held unless c is nil.
func (c *conn) finish(now time.Duration, self *conn) *conn {
	switch {
	case c == nil:
		return nil
	case c != self:
		c.flush(now)
		c.notify()
	case c.q.Completed() && c.q.Patient():
		c.ackPending = true
	default:
		c.flush(now)
	}
	c.unlock()
	return nil
}

// arm makes runTimer look at the connections at a time.
func (p *port) arm(at time.Duration) {
	p.timerMu.Lock()
	if at < p.alarm {
		p.alarm = at
		p.timer.Reset(max(at-p.now(), 0))
	}
	p.timerMu.Unlock()
}

// runTimer does what is due.
func (p *port) runTimer() {
	defer p.run.Done()
	var all []*conn
	for {
		select {
		case <-p.stop:
			return
		case <-p.timer.C:
		}
		p.timerMu.Lock()
		p.alarm = rc.Never
		p.timerMu.Unlock()
		p.tick()
		p.mu.Lock()
		all = all[:0]
		for _, c := range p.pairs {
			all = append(all, c)
		}
		p.mu.Unlock()
		for _, c := range all {
			c.mu.Lock()
			now := p.now()
			c.q.Advance(now)
			c.finish(now, nil)
		}
		clear(all)
	}
}
