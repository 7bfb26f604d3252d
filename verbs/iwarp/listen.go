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
	"github.com/rdmafs/rdmafs/verbs/backlog"
)

const (
	defaultBacklog = 64
	acceptPause    = 20 * time.Millisecond
)

// listener implements verbs.Listener.
type listener struct {
	dev   *device
	sock  *net.TCPListener
	addr  netip.AddrPort
	ready chan *request
	// slots bounds connections that are being set up or wait for Accept.
	slots chan struct{}
	// stop ends with the listener, and with it the set-ups.
	stop context.Context
	end  context.CancelCauseFunc
	run  sync.WaitGroup
	once sync.Once
}

// Listen implements verbs.Device.
func (d *device) Listen(at netip.AddrPort, o verbs.ListenOptions) (verbs.Listener, error) {
	if err := d.hold(); err != nil {
		return nil, err
	}
	s, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		d.release()
		return nil, &verbs.ConnError{Op: "listen", Remote: at, Err: err}
	}
	if o.Backlog <= 0 {
		o.Backlog = defaultBacklog
	}
	l := &listener{
		dev:   d,
		sock:  s,
		addr:  addrPort(s.Addr()),
		ready: make(chan *request, o.Backlog),
		slots: make(chan struct{}, o.Backlog),
	}
	l.stop, l.end = context.WithCancelCause(context.Background())
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
		case <-l.stop.Done():
			return
		}
		s, err := l.sock.AcceptTCP()
		if err != nil {
			<-l.slots
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// One connection failed, or the process is short of
			// descriptors: neither ends the service.
			select {
			case <-l.stop.Done():
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
	err := bounded(l.stop, s, l.dev.config.SetupTimeout, func() (err error) {
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
	// There is room: each slot leads to one request at most.
	l.ready <- r
}

// Accept implements verbs.Listener.
func (l *listener) Accept(ctx context.Context) (verbs.Request, error) {
	r, err := backlog.Take(ctx, l.ready, l.stop)
	if err != nil {
		return nil, err
	}
	<-l.slots
	return r, nil
}

// Close implements verbs.Listener.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.end(verbs.ErrClosed)
		l.sock.Close()
		l.run.Wait()
		backlog.Refuse(l.ready)
		l.dev.release()
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

// check refuses requests that this side cannot serve; markers with a reply
// that says so (RFC 5044 section 7.1.1), as the peer may try without.
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
		return errors.New("iwarp: request answered twice")
	}
	r.used = true
	defer r.sock.Close()
	var long error
	if len(private) > maxPrivate {
		long = fmt.Errorf("iwarp: private data of %d bytes, at most %d", len(private), maxPrivate)
		private = nil
	}
	return errors.Join(long, bounded(context.Background(), r.sock, r.dev.config.SetupTimeout, func() error {
		return r.reply(true, private, int(r.req.ord), int(r.req.ird))
	}))
}

// Accept implements verbs.Request.
func (r *request) Accept(ctx context.Context, o verbs.ConnOptions) (verbs.Conn, error) {
	if r.used {
		return nil, errors.New("iwarp: request answered twice")
	}
	if err := checkOptions(&o); err != nil {
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

// respond settles the connection as the side that listened.
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
