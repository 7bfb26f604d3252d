package iwarp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/provider"
)

const acceptPause = 20 * time.Millisecond

// listener implements verbs.Listener.
type listener struct {
	dev     *device
	sock    *net.TCPListener
	addr    netip.AddrPort
	backlog *provider.Backlog // stopping it ends the set-ups, too
	// slots bounds connections that are being set up or wait for Accept.
	slots chan struct{}
	run   sync.WaitGroup
	once  sync.Once
}

// Listen implements verbs.Device.
func (d *device) Listen(at netip.AddrPort, o verbs.ListenOptions) (verbs.Listener, error) {
	if err := d.Hold(); err != nil {
		return nil, err
	}
	s, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		d.Release()
		return nil, &verbs.ConnError{Op: "listen", Remote: at, Err: err}
	}
	l := &listener{dev: d, sock: s, addr: addrPort(s.Addr()), backlog: provider.NewBacklog(o.Backlog)}
	l.slots = make(chan struct{}, l.backlog.Size())
	l.run.Add(1)
	go l.runAccept()
	return l, nil
}

func (l *listener) Addr() netip.AddrPort { return l.addr }

// runAccept takes TCP connections as long as there are slots.
func (l *listener) runAccept() {
	defer l.run.Done()
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.backlog.Stopped().Done():
			return
		}
		s, err := l.sock.AcceptTCP()
		if err != nil {
			<-l.slots
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// One connection failed, or the process is out of descriptors:
			// the listener goes on.
			select {
			case <-l.backlog.Stopped().Done():
				return
			case <-time.After(acceptPause):
			}
			continue
		}
		l.run.Add(1)
		go l.runHandshake(s)
	}
}

// runHandshake reads one peer's request.
func (l *listener) runHandshake(s *net.TCPConn) {
	defer l.run.Done()
	r := &request{dev: l.dev, sock: s, remote: addrPort(s.RemoteAddr())}
	err := bounded(l.backlog.Stopped(), s, l.dev.config.SetupTimeout, func() (err error) {
		r.req, err = readMPA(s, false)
		return err
	})
	if err == nil {
		err = r.check()
	}
	if err != nil {
		s.Close()
		<-l.slots
		return
	}
	l.backlog.Add(r) // there is room: each slot leads to one request at most
}

// Accept implements verbs.Listener.
func (l *listener) Accept(ctx context.Context) (verbs.Request, error) {
	r, err := l.backlog.Accept(ctx)
	if err != nil {
		return nil, err
	}
	<-l.slots
	return r, nil
}

// Close implements verbs.Listener.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.backlog.Stop(verbs.ErrClosed)
		l.sock.Close()
		l.run.Wait()
		l.backlog.Refuse()
		l.dev.Release()
	})
	return nil
}

// request implements verbs.Request.
type request struct {
	dev    *device
	sock   *net.TCPConn
	remote netip.AddrPort
	req    mpaFrame
	used   bool
}

func (r *request) RemoteAddr() netip.AddrPort { return r.remote }
func (r *request) PrivateData() []byte        { return r.req.private }

// check refuses requests that this side cannot serve. A request for markers is
// rejected with a reply (RFC 5044 section 7.1.1), as the peer may try without.
func (r *request) check() error {
	if r.req.revision < 1 || r.req.revision > 2 {
		return fmt.Errorf("MPA revision %d", r.req.revision)
	}
	if r.req.markers {
		r.reply(true, nil, 0, 0)
		return errors.New("peer requires markers")
	}
	return nil
}

// reply answers the request in its own revision.
func (r *request) reply(reject bool, private []byte, ird, ord int) error {
	rep := mpaFrame{
		reply:    true,
		reject:   reject,
		crc:      r.req.crc || r.dev.config.CRC,
		revision: r.req.revision,
		enhanced: r.req.enhanced,
		ird:      uint16(ird),
		ord:      uint16(ord),
		private:  private,
	}
	if r.req.peerToPeer && !reject {
		// Of the kinds on offer one is named; any first FPDU will do.
		rep.peerToPeer = true
		rep.rtrRead = r.req.readyByRead()
		rep.rtrWrite = !rep.rtrRead
	}
	_, err := r.sock.Write(appendMPA(nil, &rep))
	return err
}

// Reject implements verbs.Request.
func (r *request) Reject(private []byte) error {
	if r.used {
		return provider.ErrAnswered
	}
	r.used = true
	defer r.sock.Close()
	private, long := provider.RejectData("iwarp", private, maxPrivate)
	return errors.Join(long, bounded(context.Background(), r.sock, r.dev.config.SetupTimeout, func() error {
		return r.reply(true, private, int(r.req.ord), int(r.req.ird))
	}))
}

// Accept implements verbs.Request.
func (r *request) Accept(ctx context.Context, o verbs.ConnOptions) (verbs.Conn, error) {
	if r.used {
		return nil, provider.ErrAnswered
	}
	if err := provider.CheckOptions(&o, &r.dev.caps); err != nil {
		return nil, errors.Join(err, r.Reject(nil))
	}
	r.used = true
	c, err := r.dev.newConn(r.sock, &o)
	if err != nil {
		r.sock.Close()
		return nil, &verbs.ConnError{Op: "accept", Remote: r.remote, Err: err}
	}
	if err := c.respond(ctx, r, &o); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// respond completes the set-up as the side that listened.
func (c *conn) respond(ctx context.Context, r *request, o *verbs.ConnOptions) error {
	c.private = r.req.private
	c.crc = r.req.crc || c.dev.config.CRC
	if r.req.enhanced {
		if r.req.ird != depthAny {
			c.readsOut = min(c.readsOut, int(r.req.ird))
		}
		if r.req.ord != depthAny {
			c.readsIn = min(c.readsIn, int(r.req.ord))
		}
		if r.req.readyByRead() {
			c.readsIn = max(1, c.readsIn) // RFC 6581 section 9.1
		}
	}
	if o.Prepare != nil {
		if err := o.Prepare(c); err != nil {
			return err
		}
	}
	err := c.setUp(ctx, func() error { return r.reply(false, o.PrivateData, c.readsIn, c.readsOut) })
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return c.lost("accept", err)
	}
	c.start(false)
	return nil
}
