package roce

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/provider"
	"github.com/rdmafs/rdmafs/verbs/roce/cm"
)

// listener implements verbs.Listener.
type listener struct {
	dev     *device
	port    *port
	addr    netip.AddrPort
	backlog *provider.Backlog
	once    sync.Once
}

// Listen implements verbs.Device.
func (d *device) Listen(at netip.AddrPort, o verbs.ListenOptions) (verbs.Listener, error) {
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	p, err := d.hold(at.Addr())
	if err != nil {
		return nil, &verbs.ConnError{Op: "listen", Remote: at, Err: err}
	}
	l := &listener{dev: d, port: p, backlog: provider.NewBacklog(o.Backlog)}
	p.cmMu.Lock()
	defer p.cmMu.Unlock()
	n, err := uint16(0), p.failure()
	if err == nil {
		n, err = p.cm.Listen(at, l.backlog.Size())
	}
	if err != nil {
		d.Release()
		return nil, &verbs.ConnError{Op: "listen", Remote: at, Err: err}
	}
	l.addr = netip.AddrPortFrom(at.Addr(), n)
	p.listeners[l.addr] = l
	return l, nil
}

func (l *listener) Addr() netip.AddrPort { return l.addr }

// Accept implements verbs.Listener.
func (l *listener) Accept(ctx context.Context) (verbs.Request, error) {
	return l.backlog.Accept(ctx)
}

// Close implements verbs.Listener. An Accept under way may still take a
// request.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.backlog.Stop(verbs.ErrClosed)
		p := l.port
		p.cmMu.Lock()
		p.cm.Unlisten(l.addr)
		delete(p.listeners, l.addr)
		p.cmMu.Unlock()
		l.backlog.Refuse()
		l.dev.Release()
	})
	return nil
}

// request implements verbs.Request.
type request struct {
	l             *listener
	id            cm.ID
	local, remote netip.AddrPort
	peer          cm.Side
	private       []byte
	used          bool
}

func (r *request) RemoteAddr() netip.AddrPort { return r.remote }
func (r *request) PrivateData() []byte        { return r.private }

// Reject implements verbs.Request.
func (r *request) Reject(private []byte) error {
	if r.used {
		return provider.ErrAnswered
	}
	r.used = true
	private, long := provider.RejectData("roce", private, maxPrivate)
	p := r.l.port
	p.cmMu.Lock()
	defer p.cmMu.Unlock()
	err := p.cm.Reject(time.Now(), r.id, private)
	p.dispatch()
	return errors.Join(long, err)
}

// Accept implements verbs.Request.
func (r *request) Accept(ctx context.Context, o verbs.ConnOptions) (verbs.Conn, error) {
	if r.used {
		return nil, provider.ErrAnswered
	}
	caps := r.l.dev.Caps()
	if err := provider.CheckOptions(&o, &caps); err != nil {
		return nil, errors.Join(err, r.Reject(nil))
	}
	c, err := r.l.dev.newConn(r.local, r.remote, &o)
	if err != nil {
		r.Reject(nil)
		return nil, &verbs.ConnError{Op: "accept", Remote: r.remote, Err: err}
	}
	if err := r.respond(ctx, c, &o); err != nil {
		r.Reject(nil)
		c.Close()
		return nil, err
	}
	return c, nil
}

// respond grants the request.
func (r *request) respond(ctx context.Context, c *conn, o *verbs.ConnOptions) error {
	if o.Prepare != nil {
		if err := o.Prepare(c); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	p := c.port
	p.cmMu.Lock()
	defer p.cmMu.Unlock()
	if err := p.failure(); err != nil {
		return &verbs.ConnError{Op: "accept", Remote: r.remote, Err: err}
	}
	mtu := 128 << r.peer.MTU
	mine := c.side(min(o.ReadsIn, int(r.peer.ReadsOut)), min(o.ReadsOut, int(r.peer.ReadsIn)), mtu)
	// The peer may send as soon as it has the answer.
	c.private, c.readsOut = r.private, int(mine.ReadsOut)
	c.mu.Lock()
	c.mtu = mtu
	c.connect(p.now(), &r.peer, mine.ReadsIn, mine.ReadsOut, mtu)
	c.mu.Unlock()
	if _, _, err := p.cm.Accept(time.Now(), r.id, mine, o.PrivateData); err != nil {
		return &verbs.ConnError{Op: "accept", Remote: r.remote, Err: err}
	}
	r.used = true
	p.known(c, r.id)
	p.dispatch()
	return nil
}
