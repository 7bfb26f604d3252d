package udp

import (
	"hash/maphash"
	"net/netip"
	"time"
)

// Any identification that solve finds is believed of a peer not known well: one
// damaged packet of 65,536 gets by, as with TCP. Most peers count, or send 0
// always, and once one has done so for long enough, what does not follow is
// taken for damage. That holds for one packet: if it was the peer, who has
// other connections, or lets another counter take over, then nothing but a
// resend is lost, and it has to prove itself anew.

const (
	// near is how far apart identifications of successive packets may be.
	near = 256
	// proof is how many packets in a row make a peer regular.
	proof = 1024
	// forgetful is the pause after which a peer may have jumped: Linux adds a
	// random number of ticks.
	forgetful = 100 * time.Millisecond
	// trackers bounds the peers that are followed; a collision replaces one.
	trackers = 256
)

// tracker follows one peer.
type tracker struct {
	addr   netip.Addr
	last   uint16
	run    int
	lastAt time.Time
}

// idents follows the peers of a socket.
type idents struct {
	seed maphash.Seed
	t    [trackers]tracker
}

// plausible records a peer's identification, and reports whether it is plausible.
func (s *idents) plausible(now time.Time, from netip.Addr, id uint16) bool {
	if s.seed == (maphash.Seed{}) {
		s.seed = maphash.MakeSeed()
	}
	t := &s.t[maphash.Comparable(s.seed, from)%trackers]
	regular := t.addr == from && t.run >= proof && now.Sub(t.lastAt) < forgetful
	d := int16(id - t.last)
	follows := t.addr == from && -near < d && d < near
	if follows {
		t.run++
	} else {
		t.run = 0
	}
	t.addr, t.last, t.lastAt = from, id, now
	return follows || !regular
}
