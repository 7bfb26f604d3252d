//go:build cgo && linux

package ibv

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"unsafe"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/provider"
)

// Dial implements verbs.Device. The adapter is found anew each time.
func (d *device) Dial(ctx context.Context, to netip.AddrPort, o verbs.ConnOptions) (verbs.Conn, error) {
	caps := d.Caps()
	if err := provider.CheckOptions(&o, &caps); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, setupTime)
	defer cancel()
	for choice := 1; ; choice++ {
		c, err := d.dial(limited, to, &o, &caps)
		if err != nil {
			return nil, connError(ctx, "dial", to, err)
		}
		if o.Prepare != nil {
			if err := o.Prepare(c); err != nil {
				c.Close()
				return nil, err
			}
		}
		if err = c.initiate(limited, &o); err == nil {
			c.start()
			return c, nil
		}
		c.Close()
		if !portTaken(err) || choice == portChoices {
			return nil, connError(ctx, "dial", to, err)
		}
	}
}

// portChoices is how often to let the connection manager choose a port. iWARP's
// ports are TCP's, and it does not know which of them sockets use.
const portChoices = 8

// portTaken reports whether err means that a socket has the chosen port, or had
// it for the same peer a moment ago.
func portTaken(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// dial makes a queue pair on the adapter that the route leads through. caps is
// what the caller was shown.
func (d *device) dial(ctx context.Context, to netip.AddrPort, o *verbs.ConnOptions, caps *verbs.Caps) (*conn, error) {
	local := o.LocalAddr
	if !local.IsValid() {
		local = d.config.Local
	}
	m, err := resolve(ctx, to, local, d.config.Adapter)
	if err != nil {
		return nil, err
	}
	dom, err := d.use(m.identity(), true)
	if err != nil {
		m.close()
		return nil, err
	}
	if dom.caps.RegionKeys != caps.RegionKeys {
		err = fmt.Errorf("the route moved from RDMA device %s to %s, which has other keys: connect again", caps.Device, dom.caps.Device)
	} else {
		err = provider.CheckOptions(o, &dom.caps)
	}
	if err == nil {
		err = errno(C.rv_resolve_route(m.id, C.int(resolveTime.Milliseconds())))
	}
	if err == nil {
		_, err = m.expect(ctx, C.RV_ROUTE_RESOLVED)
	}
	if err != nil {
		d.unuse(dom)
		m.close()
		return nil, err
	}
	return d.newConn(m, dom, to, o)
}

// initiate connects as the side that dialed. Linux' NFS server refuses a client
// that takes no Reads.
func (c *conn) initiate(ctx context.Context, o *verbs.ConnOptions) error {
	c.readsIn = max(1, o.ReadsIn)
	p := unsafe.SliceData(o.PrivateData)
	err := errno(C.rv_connect(c.cm.id, unsafe.Pointer(p), C.int(len(o.PrivateData)), C.int(c.readsIn), C.int(o.ReadsOut)))
	if err != nil {
		return err
	}
	e, err := c.cm.expect(ctx, C.RV_ESTABLISHED)
	if err != nil && e.kind == C.RV_REJECTED && noListener(e.status) {
		return syscall.ECONNREFUSED
	}
	if err != nil && e.kind == C.RV_REJECTED {
		return &verbs.RejectError{Remote: c.remote, Private: e.private, Reason: rejectReason(e.status)}
	}
	if err != nil {
		return err
	}
	c.private = e.private
	c.readsOut = min(o.ReadsOut, e.readsOut)
	c.local = c.cm.identity().local
	return nil
}

// A rejection's status is a reason of the InfiniBand CM (IBTA 12.6.7.2), or a
// negated errno of iWARP.

// noListener reports whether no service listens on that port: reason 8, invalid
// service ID.
func noListener(status int) bool { return status == 8 || status == -int(syscall.ECONNREFUSED) }

// rejectReason is the status as text.
func rejectReason(status int) string {
	switch {
	case status == 28:
		return "the service turned it down"
	case status == 10:
		return "it still has an older connection of the same number"
	case status < 0:
		return syscall.Errno(-status).Error()
	}
	return fmt.Sprintf("reason %d", status)
}
