package cm

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"time"
)

// maxConns bounds the connections of all kinds that a Manager holds.
const maxConns = 4096

// ID is a connection, by its local communication ID. It is random and never
// zero.
type ID uint32

// Side is what one side says of its queue pair, and of how the other is to
// treat it.
type Side struct {
	QPN, PSN uint32
	// ReadsIn is how many RDMA Reads the side accepts at a time, ReadsOut how
	// many it will have outstanding.
	ReadsIn, ReadsOut uint8
	// AckTimeout is an exponent of 4.096 µs: in a request, after what time the
	// other side should send again; in an answer, in what time this side
	// acknowledges.
	AckTimeout uint8
	// Retry and RNRRetry are how often the other side should try again. An
	// answer has no Retry.
	Retry, RNRRetry uint8
	// MTU is the code of the path's payload size; only a request has it.
	MTU uint8
}

// Kind is the kind of an Event.
type Kind uint8

const (
	// Requested: a peer wants to connect; Accept or Reject it.
	Requested Kind = iota + 1
	// Connected: the peer has accepted. Datagrams taken with this event tell
	// it that it may send.
	Connected
	// Established: the peer knows that we have accepted.
	Established
	// Failed: the connection was not established, for the reason in Err.
	Failed
	// Disconnected: the connection has ended, for the reason in Err.
	Disconnected
)

// Event is something that the user has to carry out.
type Event struct {
	Kind Kind
	ID   ID
	// Local, Remote, Peer and Private come with Requested and Connected.
	Local, Remote netip.AddrPort
	Peer          Side
	// ReadsIn and ReadsOut are the depths in force on this side; they come
	// with Connected (and are what Accept returns).
	ReadsIn, ReadsOut uint8
	// Private is the peer's private data with the zeros that fill its field,
	// or nil when there is nothing else; the user's to keep.
	Private []byte
	Err     error
}

// Datagram is to be sent to queue pair 1 of a host. MAD must not be changed.
type Datagram struct {
	From, To netip.Addr
	MAD      []byte
}

// Manager holds the connections of one device.
type Manager struct {
	guid uint64

	conns     map[ID]*conn
	passive   map[peerKey]*conn
	pairs     map[pairKey]*conn
	listeners map[netip.AddrPort]*listener

	out    []Datagram
	events []Event
	// wake is not later than any connection's deadline; zero when there is none.
	wake time.Time
}

// peerKey is a peer's name for a connection that it asked for.
type peerKey struct {
	addr   netip.Addr
	guid   uint64
	commID uint32
}

// pairKey is a queue pair of a peer's.
type pairKey struct {
	addr netip.Addr
	guid uint64
	qpn  uint32
}

type listener struct {
	backlog int
	// pending counts the connections that are being set up.
	pending int
}

// conn is one connection.
type conn struct {
	id            ID
	state         state
	active        bool
	local, remote netip.AddrPort
	tid           uint64
	mine, peer    Side
	// peerID is zero until the peer has sent it.
	peerID   uint32
	peerGUID uint64
	listener *listener
	// last is the datagram that is sent again by timer or to a duplicate.
	last     []byte
	tries    int
	deadline time.Time
}

// happening is an input with its data.
type happening struct {
	input input
	now   time.Time
	// tid is a datagram's transaction, wait what an MRA asks for.
	tid     uint64
	wait    time.Duration
	rep     *REP
	rej     *REJ
	private []byte
}

// New makes the manager of a device whose GUID is random, as queue pair
// numbers must be: a peer takes the same pair for an old connection.
func New() *Manager {
	return &Manager{
		guid:      random()<<32 | random() | 1,
		conns:     make(map[ID]*conn),
		passive:   make(map[peerKey]*conn),
		pairs:     make(map[pairKey]*conn),
		listeners: make(map[netip.AddrPort]*listener),
	}
}

// random is 32 random bits.
func random() uint64 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return uint64(binary.NativeEndian.Uint32(b[:]))
}

// Take hands over what has come up since the last Take: the events are to be
// carried out before the datagrams are sent.
func (m *Manager) Take() ([]Event, []Datagram) {
	e, d := m.events, m.out
	m.events, m.out = nil, nil
	return e, d
}

// Deadline is when Tick should be called next; zero when there is no need.
func (m *Manager) Deadline() time.Time { return m.wake }

// Tick advances the time: what is due is sent again or given up.
func (m *Manager) Tick(now time.Time) {
	if m.wake.IsZero() || now.Before(m.wake) {
		return
	}
	m.wake = time.Time{}
	for _, c := range m.conns {
		if !c.deadline.IsZero() && !now.Before(c.deadline) {
			p := stateTimeouts[c.state]
			c.tries++
			in := inTimer
			if c.tries > p.tries {
				in = inExpired
			}
			c.deadline = time.Time{}
			m.step(c, &happening{input: in, now: now})
		}
		m.wakeFor(c)
	}
}

// Busy reports whether a queue pair number of this side belongs to a
// connection that is not over yet, timewait included.
func (m *Manager) Busy(qpn uint32) bool {
	for _, c := range m.conns {
		if c.mine.QPN == qpn && c.state != reqRcvd && c.state != rejected {
			return true
		}
	}
	return false
}

// step runs one row of the table.
func (m *Manager) step(c *conn, h *happening) {
	r := &transitions[c.state][h.input]
	if r.to == none {
		return
	}
	from := c.state
	if r.do != nil {
		r.do(m, c, h)
	}
	m.move(c, r.to)
	switch {
	case h.input == inMRA:
		// wait has set the deadline and counted a try.
	case h.input == inTimer:
		c.deadline = after(h.now, stateTimeouts[r.to].pause(c.tries))
	case from != r.to:
		c.tries = 0
		c.deadline = after(h.now, stateTimeouts[r.to].pause(0))
	}
	m.wakeFor(c)
}

// after is a time from now; no time when d is none.
func after(now time.Time, d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return now.Add(d)
}

// wakeFor makes Deadline no later than c's.
func (m *Manager) wakeFor(c *conn) {
	if c.state == gone || c.deadline.IsZero() {
		return
	}
	if m.wake.IsZero() || c.deadline.Before(m.wake) {
		m.wake = c.deadline
	}
}

// move puts c into a state and updates the counts.
func (m *Manager) move(c *conn, to state) {
	if c.listener != nil && to != reqRcvd && to != repSent && to != repWait {
		c.listener.pending--
		c.listener = nil
	}
	c.state = to
	if to == gone {
		delete(m.conns, c.id)
		if !c.active {
			delete(m.passive, c.peerKey())
		}
		if m.pairs[c.pairKey()] == c {
			delete(m.pairs, c.pairKey())
		}
	}
}

func (c *conn) peerKey() peerKey { return peerKey{c.remote.Addr(), c.peerGUID, c.peerID} }

func (c *conn) pairKey() pairKey { return pairKey{c.remote.Addr(), c.peerGUID, c.peer.QPN} }

// add makes a connection known. There is none when the table is full.
func (m *Manager) add(c *conn) bool {
	if len(m.conns) >= maxConns {
		return false
	}
	for c.id == 0 || m.conns[c.id] != nil {
		c.id = ID(random())
	}
	m.conns[c.id] = c
	if !c.active {
		m.passive[c.peerKey()] = c
		m.pairs[c.pairKey()] = c
	}
	return true
}

// send queues a datagram to c's peer.
func (m *Manager) send(c *conn, mad []byte) {
	m.out = append(m.out, Datagram{From: c.local.Addr(), To: c.remote.Addr(), MAD: mad})
}

// keep queues a datagram, and keeps it for again.
func (m *Manager) keep(c *conn, mad []byte) {
	c.last = mad
	m.send(c, mad)
}

func (m *Manager) event(e Event) { m.events = append(m.events, e) }
