package rpcrdma

import (
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
)

// versionState is where a link's choice of the protocol's version stands (the
// draft, section 8). A link begins by trying version 2, if the dialer wants that
// and does not know better: with one call of at most 1024 bytes, which even a
// server of version 1 can receive. A server that has version 2 answers in it; any
// other sends ERR_VERS, and the same call is sent in version 1. If the connection
// is lost before there is an answer, the next one begins in version 1.
type versionState uint8

const (
	// versionSettled: on the version in the terms in force.
	versionSettled versionState = iota
	// versionTry: nothing has been sent in version 2.
	versionTry
	// versionTried: a call has, and nothing has come.
	versionTried
	versionStates
)

// versionEvent is what moves a versionState.
type versionEvent uint8

const (
	versionSent   versionEvent = iota // a call is about to be sent
	versionHeard                      // a message in version 2
	versionRefuse                     // ERR_VERS
	versionEvents
)

var versionNext = [versionStates][versionEvents]versionState{
	versionSettled: {versionSettled, versionSettled, versionSettled},
	versionTry:     {versionTried, versionSettled, versionTry},
	versionTried:   {versionTried, versionSettled, versionSettled},
}

func (d *dialer) tries2() bool { return d.cfg.TryVersion2 && !d.noVersion2.Load() }

// Terms are those for a call that is to be sent next.
func (c *connection) Terms() plan.Terms {
	now, cfg := c.inForce.Load(), &c.d.cfg
	t := now.terms
	switch {
	case now.version != versionSettled:
		t.Version, t.ReadReplies = Version2, false
		t.SendInline = wire.MinInline
		t.RecvInline = min(cfg.InlineRecv, wire.DefaultInline2)
	case t.Version == Version2:
		t.SendInline = min(cfg.InlineSend, c.control.props.sendLimit())
		t.RecvInline = min(cfg.InlineRecv, c.control.props.receiveLimit())
	}
	return t
}

// happens moves the choice of the version, and reports whether that settles it. c.mu is held.
func (c *connection) happens(e versionEvent) (settled bool) {
	now := *c.inForce.Load()
	before := now.version
	now.version = versionNext[before][e]
	settled = now.version == versionSettled && before != versionSettled
	if settled && e == versionHeard {
		now.terms.Version, now.terms.ReadReplies = Version2, false
	}
	c.inForce.Store(&now)
	return settled
}

// setTerms replaces the terms, by those that change makes of them. c.mu is held.
func (c *connection) setTerms(change func(*plan.Terms)) {
	now := *c.inForce.Load()
	change(&now.terms)
	c.inForce.Store(&now)
}

// settled reports whether the version is.
func (c *connection) settled() bool { return c.inForce.Load().version == versionSettled }

// Sending records that a call of the version is about to be sent.
func (c *connection) Sending(version uint32) {
	if version != Version2 || c.settled() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.happens(versionSent)
}

// accepted are the versions in which messages may come.
func (c *connection) accepted() Versions {
	now := c.inForce.Load()
	if now.version != versionSettled {
		return AllVersions
	}
	return Versions{Low: now.terms.Version, High: now.terms.Version}
}

// Agree takes the answer to a call, which settles the version if it is not yet.
// refusal is nil unless it is an error.
// It reports whether the answer's grant counts: from the first on that is no error
// (section 8; RFC 8166 section 3.3.3).
func (c *connection) Agree(h wire.Header, refusal *wire.Error) (grants bool) {
	if refusal == nil || refusal.Code != wire.ErrVers {
		c.heard(&h)
	} else if (Versions{Low: refusal.Low, High: refusal.High}).Has(Version1) {
		c.refused()
	}
	if refusal == nil && !c.granted.Load() {
		c.granted.Store(true)
	}
	return c.granted.Load()
}

// refused settles on version 1, which the server has, when the first call in version 2 is answered with ERR_VERS.
func (c *connection) refused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.happens(versionRefuse) {
		c.d.noVersion2.Store(true)
		c.noteTerms()
	}
}

// heard settles the version when a message in version 2 is the first that comes:
// the exchange of properties begins.
func (c *connection) heard(h *wire.Header) {
	if h.Version != Version2 || c.settled() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.happens(versionHeard) {
		// XIDs as far from those of calls as can be.
		c.control.props.begin(h.XID ^ 1<<31)
		c.control.wake()
		c.noteTerms()
	}
}

// gaveUp is called when the connection has ended. If a call in version 2 is unanswered
// then, the next one does not try again: section 8.2.
func (c *connection) gaveUp() {
	if c.inForce.Load().version == versionTried {
		c.d.noVersion2.Store(true)
	}
}

// noteTerms keeps the terms for Stats. c.mu is held, or c is not in use yet.
func (c *connection) noteTerms() {
	now, cfg := c.inForce.Load(), &c.d.cfg
	t := transport.Terms{Version: int(now.terms.Version), InlineSend: now.terms.SendInline, InlineRecv: now.terms.RecvInline}
	if now.version != versionSettled {
		t.Version = Version2
	}
	if t.Version == Version2 {
		now := c.control.props.inForce()
		t.InlineSend, t.InlineRecv = min(cfg.InlineSend, now.send), min(cfg.InlineRecv, now.receive)
		t.ReceiveSize, t.PeerReceiveSize = now.promised, now.peer
		t.Backward, t.PeerBackward = now.backward.String(), now.peerBackward.String()
	}
	c.d.terms.Store(&t)
}
