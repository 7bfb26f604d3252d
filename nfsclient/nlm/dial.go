package nlm

import (
	"context"
	"net/netip"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// dialer makes connections to NLM, whose port it asks for each time.
type dialer struct {
	cf *Config
	// none is the error for a server without NLM.
	none func() error
}

var _ transport.Dialer = (*dialer)(nil)

// Dial implements transport.Dialer.
func (d *dialer) Dial(ctx context.Context) (transport.Link, error) {
	port, err := d.cf.Port(ctx)
	if err != nil {
		return nil, err
	}
	if port == 0 {
		return nil, d.none()
	}
	to, err := d.cf.Dialer(netip.AddrPortFrom(d.cf.Addr, port))
	if err != nil {
		return nil, err
	}
	return to.Dial(ctx)
}

// Register implements transport.Dialer: locks have no payloads.
func (d *dialer) Register(*mem.Arena) error { return nil }

// Unregister implements transport.Dialer.
func (d *dialer) Unregister(*mem.Arena) error { return nil }

// Limits implements transport.Dialer.
func (d *dialer) Limits() transport.Limits { return transport.Limits{Concurrent: 64} }

// Stats implements transport.Dialer.
func (d *dialer) Stats() transport.Stats { return transport.Stats{} }

// Close implements transport.Dialer.
func (d *dialer) Close() error { return nil }
