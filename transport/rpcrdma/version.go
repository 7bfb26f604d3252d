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
	// versionSettled: on the version in link.terms.
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

// termsNow are the terms for a call that is to be sent next. l.mu is held.
func (l *link) termsNow() plan.Terms {
	t, cfg := l.terms, &l.d.cfg
	switch {
	case l.version != versionSettled:
		t.Version, t.ReadReplies = Version2, false
		t.SendInline = wire.MinInline
		t.RecvInline = min(cfg.InlineRecv, wire.DefaultInline2)
	case t.Version == Version2:
		t.SendInline = min(cfg.InlineSend, l.control.props.sendLimit())
		t.RecvInline = min(cfg.InlineRecv, l.control.props.receiveLimit())
	}
	return t
}

// sendInline is the most that a message which is no call may hold.
func (l *link) sendInline() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.termsNow().SendInline
}

// sending notes that the call in s is about to be sent. l.mu is held.
func (l *link) sending(s *slot) {
	if s.terms.Version == Version2 {
		l.version = versionNext[l.version][versionSent]
	}
}

// accepted are the versions in which messages may come. l.mu is held.
func (l *link) accepted() Versions {
	if l.version != versionSettled {
		return AllVersions
	}
	return Versions{Low: l.terms.Version, High: l.terms.Version}
}

// agree takes the answer to a call, which settles the version if it is not yet.
// refusal is nil unless it is an error.
// It reports whether the answer's grant counts: from the first on that is no error
// (section 8; RFC 8166 section 3.3.3). l.mu is held.
func (l *link) agree(h wire.Header, refusal *wire.Error) (grants bool) {
	switch {
	case refusal == nil || refusal.Code != wire.ErrVers:
		l.heard(&h)
	case l.version == versionTried && (Versions{Low: refusal.Low, High: refusal.High}).Has(Version1):
		l.version = versionNext[l.version][versionRefuse]
		l.d.noVersion2.Store(true)
		l.d.noteTerms(l)
	}
	l.granted = l.granted || refusal == nil
	return l.granted
}

// heard settles the version when a message in version 2 is the first that comes:
// the exchange of properties begins. l.mu is held.
func (l *link) heard(h *wire.Header) {
	if l.version == versionSettled || h.Version != Version2 {
		return
	}
	l.version = versionNext[l.version][versionHeard]
	l.terms.Version, l.terms.ReadReplies = Version2, false
	// XIDs as far from those of calls as can be.
	l.control.props.begin(h.XID ^ 1<<31)
	l.control.wake()
	l.d.noteTerms(l)
}

// gaveUp is called when the link has ended. If a call in version 2 is unanswered
// then, the next link does not try again: section 8.2.
func (l *link) gaveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.version == versionTried {
		l.d.noVersion2.Store(true)
	}
}

// noteTerms keeps the terms of l for Stats. l.mu is held, or l is not in use yet.
func (d *dialer) noteTerms(l *link) {
	t := transport.Terms{Version: int(l.terms.Version), InlineSend: l.terms.SendInline, InlineRecv: l.terms.RecvInline}
	if l.version != versionSettled {
		t.Version = Version2
	}
	if t.Version == Version2 {
		now := l.control.props.inForce()
		t.InlineSend, t.InlineRecv = min(d.cfg.InlineSend, now.send), min(d.cfg.InlineRecv, now.receive)
		t.ReceiveSize, t.PeerReceiveSize = now.told, now.peer
		t.Backward, t.PeerBackward = now.backward.String(), now.peerBackward.String()
	}
	d.terms.Store(&t)
}
