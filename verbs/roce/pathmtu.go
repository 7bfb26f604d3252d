package roce

import (
	"fmt"
	"log/slog"
	"net/netip"
	"sync"

	"github.com/rdmafs/rdmafs/verbs"
)

// pathMTUs remembers the peers for which the route's MTU is too large: a switch or
// the peer itself may take less, and no host on the path reports it (see
// rc/passage.go). It lasts as long as the device is open.
type pathMTUs struct {
	log *slog.Logger

	mu   sync.Mutex
	most map[netip.Addr]int
}

// leastMTU is the smallest path MTU of InfiniBand.
const leastMTU = 256

// limit is what to ask for of a peer whose route takes mtu.
func (m *pathMTUs) limit(peer netip.Addr, mtu int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if most := m.most[peer]; most > 0 {
		return min(mtu, most)
	}
	return mtu
}

// lower makes the next connection to a peer ask for less than mtu, which did not
// pass.
func (m *pathMTUs) lower(peer netip.Addr, mtu int) {
	if m.halve(peer, mtu) && m.log != nil {
		m.log.Warn(fmt.Sprintf("RoCE packets of %d bytes do not reach %s or do not come back, smaller ones do: going on with %d (the MTU should be the same on the whole path)",
			mtu, peer, mtu/2))
	}
}

func (m *pathMTUs) halve(peer netip.Addr, mtu int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if most := m.most[peer]; mtu <= leastMTU || most > 0 && most < mtu {
		return false // another connection has done it
	}
	if m.most == nil {
		m.most = make(map[netip.Addr]int)
	}
	m.most[peer] = mtu / 2
	return true
}

// LoweredMTU is the path MTU that a device of this package keeps to with a peer
// because larger packets were lost; ok is false when it has lost none.
func LoweredMTU(d verbs.Device, peer netip.Addr) (mtu int, ok bool) {
	r, ok := d.(*device)
	if !ok {
		return 0, false
	}
	r.mtus.mu.Lock()
	defer r.mtus.mu.Unlock()
	mtu, ok = r.mtus.most[peer.Unmap()]
	return mtu, ok
}

// learn lowers the path MTU of the peer if c ended for it. Who accepts does not
// choose the path MTU. mu is held.
func (c *conn) learn() {
	if c.dialed && c.q.Suspect() {
		c.dialed = false
		c.dev.mtus.lower(c.remote.Addr(), c.mtu)
	}
}
