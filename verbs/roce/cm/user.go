package cm

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// firstPort and ports are where a listener on port 0 gets one.
const (
	firstPort = 49152
	ports     = 1<<16 - firstPort
)

const (
	pkey     = 0xffff
	hopLimit = 64
	// responseTimeout is 4.096 µs << 20, 4.3 s: what Linux says, too.
	responseTimeout = 20
	maxCMRetries    = 15
)

var errInUse = errors.New("port is in use")

// Listen has requests for a TCP port taken, at one address or, unspecified, at
// every one. backlog bounds those that are being set up. It returns the port,
// chosen when it was 0.
func (m *Manager) Listen(at netip.AddrPort, backlog int) (uint16, error) {
	if at.Port() != 0 {
		if m.listeners[at] != nil {
			return 0, errInUse
		}
		m.listeners[at] = &listener{backlog: backlog}
		return at.Port(), nil
	}
	start := random()
	for i := range uint64(ports) {
		port := uint16(firstPort + (start+i)%ports)
		if try := netip.AddrPortFrom(at.Addr(), port); m.listeners[try] == nil {
			return m.Listen(try, backlog)
		}
	}
	return 0, errInUse
}

// Unlisten ends Listen. Requests that were taken stay.
func (m *Manager) Unlisten(at netip.AddrPort) { delete(m.listeners, at) }

// listenerFor finds who takes requests at an address.
func (m *Manager) listenerFor(at netip.AddrPort) *listener {
	if l := m.listeners[at]; l != nil {
		return l
	}
	any := netip.IPv4Unspecified()
	if at.Addr().Is6() {
		any = netip.IPv6Unspecified()
	}
	return m.listeners[netip.AddrPortFrom(any, at.Port())]
}

// Connect asks a peer for a connection, with at most REQPrivate bytes of
// private data. Its end is an event, Connected or Failed.
func (m *Manager) Connect(now time.Time, local, remote netip.AddrPort, mine Side, private []byte) (ID, error) {
	if len(private) > REQPrivate {
		return 0, fmt.Errorf("%d bytes of private data, at most %d go into a request", len(private), REQPrivate)
	}
	c := &conn{active: true, local: local, remote: remote, mine: mine, tid: random()<<32 | random()&^1}
	if !m.add(c) {
		return 0, ErrFull
	}
	r := REQ{
		CommID: uint32(c.id), ServiceID: portSpaceTCP | uint64(remote.Port()), CAGUID: m.guid,
		QPN: mine.QPN, PSN: mine.PSN,
		ResponderResources: mine.ReadsIn, InitiatorDepth: mine.ReadsOut,
		RemoteTimeout: responseTimeout, LocalTimeout: responseTimeout,
		RetryCount: mine.Retry, RNRRetry: mine.RNRRetry,
		PKey: pkey, MTU: mine.MTU, MaxCMRetries: maxCMRetries,
		LocalGID: local.Addr(), RemoteGID: remote.Addr(), HopLimit: hopLimit,
		AckTimeout: mine.AckTimeout,
		Addresses:  CMA{SrcPort: local.Port(), Src: local.Addr(), Dst: remote.Addr()},
		Private:    private,
	}
	m.keep(c, r.Append(nil, c.tid))
	c.state = reqSent
	c.deadline = now.Add(stateTimeouts[reqSent].first)
	m.wakeFor(c)
	return c.id, nil
}

// Accept grants a request, with at most REPPrivate bytes of private data. It
// returns the depths in force. What comes of it is an event, Established or
// Failed.
func (m *Manager) Accept(now time.Time, id ID, mine Side, private []byte) (readsIn, readsOut uint8, err error) {
	if len(private) > REPPrivate {
		return 0, 0, fmt.Errorf("%d bytes of private data, at most %d go into an answer", len(private), REPPrivate)
	}
	c := m.conns[id]
	if c == nil || c.state != reqRcvd {
		return 0, 0, ErrPeerLeft
	}
	mine.ReadsIn = min(mine.ReadsIn, c.peer.ReadsOut)
	mine.ReadsOut = min(mine.ReadsOut, c.peer.ReadsIn)
	c.mine = mine
	m.step(c, &happening{input: inAccept, now: now, private: private})
	return mine.ReadsIn, mine.ReadsOut, nil
}

// Reject refuses a request, with at most REJPrivate bytes of private data. A
// request that is no more needs no refusal.
func (m *Manager) Reject(now time.Time, id ID, private []byte) error {
	if len(private) > REJPrivate {
		return fmt.Errorf("%d bytes of private data, at most %d go into a refusal", len(private), REJPrivate)
	}
	if c := m.conns[id]; c != nil {
		m.step(c, &happening{input: inReject, now: now, private: private})
	}
	return nil
}

// Close ends a connection, whatever its state. No event of it follows.
func (m *Manager) Close(now time.Time, id ID) {
	if c := m.conns[id]; c != nil {
		m.step(c, &happening{input: inClose, now: now})
	}
}

// Heard reports that the peer's queue pair has sent a packet, which it does
// only when it has our REP: it counts as an RTU that was lost.
func (m *Manager) Heard(now time.Time, id ID) {
	if c := m.conns[id]; c != nil {
		m.step(c, &happening{input: inData, now: now})
	}
}
