package nlm

import (
	"context"
	"net/netip"
	"sync"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// dialer makes connections to NLM, whose port it asks for each time.
type dialer struct {
	cf *Config
	// lost is called when a connection has ended.
	lost func()
	// none is the error for a server without NLM.
	none func() error

	watching sync.WaitGroup // runWatch
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
	l, err := to.Dial(ctx)
	if err != nil {
		return nil, err
	}
	d.watching.Go(func() { d.runWatch(l) })
	return l, nil
}

// runWatch waits for the end of a connection, which is how a server that restarts
// shows itself first.
func (d *dialer) runWatch(l transport.Link) {
	<-l.Done()
	d.lost()
}

// Register implements transport.Dialer: locks have no payloads.
func (d *dialer) Register(*mem.Arena) error { return nil }

// Unregister implements transport.Dialer.
func (d *dialer) Unregister(*mem.Arena) error { return nil }

// Limits implements transport.Dialer.
func (d *dialer) Limits() transport.Limits { return transport.Limits{Concurrent: 64} }

// Stats implements transport.Dialer.
func (d *dialer) Stats() transport.Stats { return transport.Stats{} }

// Close implements transport.Dialer. All connections are closed.
func (d *dialer) Close() error {
	d.watching.Wait()
	return nil
}
