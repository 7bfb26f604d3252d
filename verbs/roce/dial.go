package roce

import (
	"context"
	"net/netip"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/provider"
	"github.com/rdmafs/rdmafs/verbs/roce/cm"
	"github.com/rdmafs/rdmafs/verbs/roce/udp"
)

// Dial implements verbs.Device.
func (d *device) Dial(ctx context.Context, to netip.AddrPort, o verbs.ConnOptions) (verbs.Conn, error) {
	caps := d.Caps()
	if err := provider.CheckOptions(&o, &caps); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	from := o.LocalAddr
	if !from.IsValid() && d.config.Local.Is4() == to.Addr().Is4() {
		from = d.config.Local
	}
	route, err := udp.RouteTo(to.Addr(), from.Unmap())
	if err != nil {
		return nil, dialError(to, err)
	}
	// Nothing listens on this port; it only distinguishes connections.
	c, err := d.newConn(netip.AddrPortFrom(route.Local, uint16(random24())|0xc000), to, &o)
	if err != nil {
		return nil, dialError(to, err)
	}
	mtu := d.mtus.limit(to.Addr(), route.Payload())
	c.mu.Lock() // runTimer knows c already
	c.mtu, c.dialed = mtu, true
	c.mu.Unlock()
	if err := c.initiate(ctx, &o, mtu); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// initiate asks the peer and waits for its answer.
func (c *conn) initiate(ctx context.Context, o *verbs.ConnOptions, mtu int) error {
	if o.Prepare != nil {
		if err := o.Prepare(c); err != nil {
			return err
		}
	}
	if err := c.ask(o, mtu); err != nil {
		return dialError(c.remote, err)
	}
	select {
	case err := <-c.outcome:
		if err != nil {
			return cm.DialError(c.remote, err)
		}
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask requests the connection from the peer, by the connection manager.
func (c *conn) ask(o *verbs.ConnOptions, mtu int) error {
	p := c.port
	p.cmMu.Lock()
	defer p.cmMu.Unlock()
	if err := p.failure(); err != nil {
		return err
	}
	// Linux' NFS server refuses a client that takes no Reads.
	id, err := p.cm.Connect(time.Now(), c.local, c.remote, c.side(max(1, o.ReadsIn), o.ReadsOut, mtu), o.PrivateData)
	if err != nil {
		return err
	}
	p.known(c, id)
	p.dispatch()
	return nil
}
