package roce

import (
	"log/slog"
	"net/netip"
	"sync"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/provider"
	"github.com/rdmafs/rdmafs/verbs/roce/cm"
	"github.com/rdmafs/rdmafs/verbs/roce/rc"
	"github.com/rdmafs/rdmafs/verbs/roce/udp"
)

// Config says how a device behaves. The zero Config is right on most hosts.
type Config struct {
	// Local is the address to dial from unless ConnOptions says otherwise. If it
	// is not valid the route decides.
	Local netip.Addr
	// Log may be nil. It gets what a person should know and is no error.
	Log *slog.Logger
}

// Open makes a device. It holds no resource of the system until it is used.
func Open(c Config) verbs.Device {
	return &device{Soft: provider.Soft{Provider: "roce"}, config: c, ports: make(map[netip.Addr]*port), mtus: pathMTUs{log: c.Log}}
}

type device struct {
	provider.Soft
	config Config
	mtus   pathMTUs

	mu    sync.Mutex
	ports map[netip.Addr]*port
	// lost are the ports whose sockets have failed: see port.abandon.
	lost []*port
}

func (d *device) Caps() verbs.Caps {
	return verbs.Caps{
		Provider:         "roce",
		Device:           "udp",
		MaxSGE:           rc.MaxSGE,
		MaxQueue:         rc.MaxQueue,
		MaxMessage:       rc.MaxMessage,
		MaxPrivateData:   maxPrivate,
		MaxReadDepth:     rc.MaxReadDepth,
		RemoteInvalidate: true,
	}
}

// maxPrivate is what fits a request, which has the least room.
const maxPrivate = cm.REQPrivate

// hold finds or opens the port for a local address, for something that must be
// closed before the device. A port of all addresses will do for each.
func (d *device) hold(local netip.Addr) (*port, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.Hold(); err != nil {
		return nil, err
	}
	all := netip.IPv4Unspecified()
	if local.Is6() {
		all = netip.IPv6Unspecified()
	}
	p := d.working(all)
	if p == nil {
		p = d.working(local)
	}
	if p == nil {
		s, err := udp.Open(local)
		if err != nil {
			d.Release()
			return nil, err
		}
		p = newPort(s)
		d.ports[local] = p
	}
	return p, nil
}

// working is the port of an address, nil when there is none that works. mu is
// held.
func (d *device) working(at netip.Addr) *port {
	p := d.ports[at]
	if p != nil && p.failure() != nil {
		delete(d.ports, at)
		d.lost = append(d.lost, p)
		return nil
	}
	return p
}

// Close implements verbs.Device.
func (d *device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.Soft.Close(); err != nil {
		return err
	}
	for _, p := range d.ports {
		p.close()
	}
	for _, p := range d.lost {
		p.close()
	}
	clear(d.ports)
	d.lost = nil
	return nil
}
