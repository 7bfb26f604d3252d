package cm

import "fmt"

// This file holds the actions of the table.

// again sends the last datagram once more.
func (m *Manager) again(c *conn, _ *happening) { m.send(c, c.last) }

// wait obeys an MRA. It counts as a try, so that a peer cannot delay us without
// end.
func (m *Manager) wait(c *conn, h *happening) {
	if c.tries < stateTimeouts[c.state].tries {
		c.tries++
	}
	c.deadline = h.now.Add(h.wait)
}

// connected takes the peer's REP.
func (m *Manager) connected(c *conn, h *happening) {
	r := h.rep
	c.peerID, c.peerGUID = r.CommID, r.CAGUID
	c.peer = Side{
		QPN: r.QPN, PSN: r.PSN,
		ReadsIn: r.ResponderResources, ReadsOut: r.InitiatorDepth,
		AckTimeout: r.AckDelay, RNRRetry: r.RNRRetry,
	}
	m.pairs[c.pairKey()] = c
	m.event(Event{
		Kind: Connected, ID: c.id, Local: c.local, Remote: c.remote, Peer: c.peer,
		ReadsIn:  min(c.mine.ReadsIn, c.peer.ReadsOut),
		ReadsOut: min(c.mine.ReadsOut, c.peer.ReadsIn),
		Private:  private(r.Private),
	})
	rtu := RTU{CommID: uint32(c.id), RemoteID: c.peerID}
	m.keep(c, rtu.Append(nil, c.tid))
}

// established: the peer has our REP.
func (m *Manager) established(c *conn, _ *happening) {
	m.event(Event{Kind: Established, ID: c.id})
}

// rejectedByPeer ends a connection that was not established.
func (m *Manager) rejectedByPeer(c *conn, h *happening) {
	m.event(Event{Kind: Failed, ID: c.id, Err: rejection(h.rej)})
}

// disconnected: the peer rejected an established connection.
func (m *Manager) disconnected(c *conn, h *happening) {
	m.event(Event{Kind: Disconnected, ID: c.id, Err: rejection(h.rej)})
}

func rejection(r *REJ) error {
	return &RejectError{Reason: r.Reason, Private: private(r.Private)}
}

// leftEarly: the peer ended what was not yet established here.
func (m *Manager) leftEarly(c *conn, h *happening) {
	m.sendDREP(c, h)
	m.event(Event{Kind: Failed, ID: c.id, Err: ErrPeerLeft})
}

// left: the peer ended the connection.
func (m *Manager) left(c *conn, h *happening) {
	m.sendDREP(c, h)
	m.event(Event{Kind: Disconnected, ID: c.id, Err: ErrPeerLeft})
}

// stale: the peer began anew before the connection was established.
func (m *Manager) stale(c *conn, _ *happening) {
	m.event(Event{Kind: Failed, ID: c.id, Err: ErrStale})
}

// replaced: the peer began anew, and may not know the connection any more.
func (m *Manager) replaced(c *conn, h *happening) {
	m.event(Event{Kind: Disconnected, ID: c.id, Err: ErrStale})
	m.sendDREQ(c, h)
}

// giveUp: the peer has not answered.
func (m *Manager) giveUp(c *conn, h *happening) {
	m.sendTimeout(c, h)
	m.event(Event{Kind: Failed, ID: c.id, Err: fmt.Errorf("%w (%s)", ErrNoAnswer, c.remote)})
}

// undecided: the consumer has not answered the request.
func (m *Manager) undecided(c *conn, _ *happening) {
	m.keep(c, m.rej(c, ReasonNoResources, nil, nil))
	m.event(Event{Kind: Failed, ID: c.id, Err: errUndecided})
}

// sendTimeout tells the peer that this side waits no longer. The REJ names the
// connection by GUID, as the peer may not have sent its communication ID.
func (m *Manager) sendTimeout(c *conn, _ *happening) {
	m.keep(c, m.rej(c, ReasonTimeout, be.AppendUint64(nil, m.guid), nil))
}

// sendREJ carries the consumer's refusal.
func (m *Manager) sendREJ(c *conn, h *happening) {
	m.keep(c, m.rej(c, ReasonConsumer, nil, h.private))
}

// sendStale answers the request for a connection that is over.
func (m *Manager) sendStale(c *conn, _ *happening) {
	m.send(c, m.rej(c, ReasonStale, nil, nil))
}

func (m *Manager) rej(c *conn, why Reason, info, private []byte) []byte {
	r := REJ{CommID: uint32(c.id), RemoteID: c.peerID, Reason: why, Info: info, Private: private}
	switch c.state {
	case reqSent, reqWait:
		r.Of = OfOther
	case repSent, repWait:
		r.Of = OfREP
	default:
		r.Of = OfREQ
	}
	return r.Append(nil, c.tid)
}

func (m *Manager) sendMRA(c *conn, _ *happening) {
	r := MRA{CommID: uint32(c.id), RemoteID: c.peerID, Of: OfREQ, Timeout: serviceTimeout}
	m.send(c, r.Append(nil, c.tid))
}

func (m *Manager) sendREP(c *conn, h *happening) {
	r := REP{
		CommID: uint32(c.id), RemoteID: c.peerID,
		QPN: c.mine.QPN, PSN: c.mine.PSN,
		ResponderResources: c.mine.ReadsIn, InitiatorDepth: c.mine.ReadsOut,
		AckDelay: c.mine.AckTimeout, RNRRetry: c.mine.RNRRetry,
		CAGUID: m.guid, Private: h.private,
	}
	m.keep(c, r.Append(nil, c.tid))
}

func (m *Manager) sendDREQ(c *conn, _ *happening) {
	r := DREQ{CommID: uint32(c.id), RemoteID: c.peerID, RemoteQPN: c.peer.QPN}
	m.keep(c, r.Append(nil, c.tid+1))
}

func (m *Manager) sendDREP(c *conn, h *happening) {
	r := DREP{CommID: uint32(c.id), RemoteID: c.peerID}
	m.send(c, r.Append(nil, h.tid))
}

// private is a copy of a field of private data, nil when it holds only zeros.
func private(p []byte) []byte {
	for _, b := range p {
		if b != 0 {
			return append([]byte(nil), p...)
		}
	}
	return nil
}
