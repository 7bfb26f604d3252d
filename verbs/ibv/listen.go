//go:build cgo && linux

package ibv

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"unsafe"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/provider"
)

// listener implements verbs.Listener.
type listener struct {
	dev     *device
	cm      *cmID
	addr    netip.AddrPort
	backlog *provider.Backlog
	run     sync.WaitGroup // runRequests
	once    sync.Once
}

// Listen implements verbs.Device.
func (d *device) Listen(at netip.AddrPort, o verbs.ListenOptions) (verbs.Listener, error) {
	if err := d.Hold(); err != nil {
		return nil, err
	}
	backlog := provider.NewBacklog(o.Backlog)
	m, err := listenAt(at, backlog.Size())
	for choice := 1; at.Port() == 0 && portTaken(err) && choice < portChoices; choice++ {
		m, err = listenAt(at, backlog.Size())
	}
	if err != nil {
		d.Release()
		return nil, &verbs.ConnError{Op: "listen", Remote: at, Err: err}
	}
	l := &listener{dev: d, cm: m, addr: m.identity().local, backlog: backlog}
	l.run.Add(1)
	go l.runRequests()
	return l, nil
}

// listenAt makes an identifier that listens.
func listenAt(at netip.AddrPort, backlog int) (*cmID, error) {
	m, err := newCMID(false)
	if err != nil {
		return nil, err
	}
	s := makeSockaddr(at)
	if err = errno(C.rv_bind(m.id, unsafe.Pointer(&s))); err == nil {
		err = errno(C.rv_listen(m.id, C.int(backlog)))
	}
	if err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

func (l *listener) Addr() netip.AddrPort { return l.addr }

// runRequests takes connection requests until the listener stops, or its device is
// removed; those beyond the backlog are refused. Other events are of requests
// whose peers have left.
func (l *listener) runRequests() {
	defer l.run.Done()
	for {
		e, err := l.cm.next(l.backlog.Stopped())
		if err == nil && e.kind == C.RV_DEVICE_REMOVAL && e.id == l.cm.id {
			err = &stepError{kind: int(e.kind), status: e.status}
		}
		if err != nil {
			l.backlog.Stop(&verbs.ConnError{Op: "accept", Remote: l.addr, Err: err}) // unless Close was first
			return
		}
		if e.kind == C.RV_CONNECT_REQUEST {
			l.take(&e)
		}
	}
}

// take queues a request, or refuses it. Its identifier moves to an event channel
// of its own: it may outlive the listener's.
func (l *listener) take(e *event) {
	m, err := newCMID(true)
	if err == nil {
		if err = errno(C.rv_migrate_id(e.id, m.ch)); err != nil {
			m.close()
		}
	}
	if err != nil {
		_ = C.rv_reject(e.id, nil, 0) // the peer may have left
		C.rv_destroy_id(e.id)
		return
	}
	m.id = e.id
	r := &request{dev: l.dev, cm: m, private: e.private, readsIn: e.readsIn, readsOut: e.readsOut}
	r.remote = m.identity().remote
	if !l.backlog.Add(r) {
		_ = r.Reject(nil) // the peer may have left
	}
}

// Accept implements verbs.Listener.
func (l *listener) Accept(ctx context.Context) (verbs.Request, error) {
	return l.backlog.Accept(ctx)
}

// Close implements verbs.Listener.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.backlog.Stop(verbs.ErrClosed)
		l.run.Wait()
		l.backlog.Refuse()
		l.cm.close()
		l.dev.Release()
	})
	return nil
}

// request implements verbs.Request. It owns the identifier until it is used.
type request struct {
	dev               *device
	cm                *cmID
	remote            netip.AddrPort
	private           []byte
	readsIn, readsOut int
	used              bool
}

func (r *request) RemoteAddr() netip.AddrPort { return r.remote }
func (r *request) PrivateData() []byte        { return r.private }

// Reject implements verbs.Request.
func (r *request) Reject(private []byte) error {
	if r.used {
		return provider.ErrAnswered
	}
	r.used = true
	defer r.cm.close()
	private, long := provider.RejectData("ibv", private, maxPrivate)
	return errors.Join(long, errno(C.rv_reject(r.cm.id, unsafe.Pointer(unsafe.SliceData(private)), C.int(len(private)))))
}

// Accept implements verbs.Request.
func (r *request) Accept(ctx context.Context, o verbs.ConnOptions) (verbs.Conn, error) {
	if r.used {
		return nil, provider.ErrAnswered
	}
	c, err := r.prepare(ctx, &o)
	if err != nil {
		return nil, err
	}
	if o.Prepare != nil {
		if err := o.Prepare(c); err != nil {
			c.Close()
			return nil, err
		}
	}
	if err := c.respond(ctx, &o); err != nil {
		c.Close()
		return nil, connError(ctx, "accept", r.remote, err)
	}
	c.start()
	return c, nil
}

// prepare makes the queue pair on the adapter that the request came in by.
func (r *request) prepare(ctx context.Context, o *verbs.ConnOptions) (*conn, error) {
	dom, err := r.dev.use(r.cm.identity(), false)
	if err == nil {
		if err = provider.CheckOptions(o, &dom.caps); err != nil {
			r.dev.unuse(dom)
		}
	}
	if err != nil {
		return nil, errors.Join(err, r.Reject(nil))
	}
	r.used = true
	c, err := r.dev.newConn(r.cm, dom, r.remote, o)
	if err != nil {
		return nil, connError(ctx, "accept", r.remote, err)
	}
	c.private = r.private
	c.readsIn = min(o.ReadsIn, r.readsIn)
	c.readsOut = min(o.ReadsOut, r.readsOut)
	return c, nil
}

// respond completes the set-up as the side that listened.
func (c *conn) respond(ctx context.Context, o *verbs.ConnOptions) error {
	ctx, cancel := context.WithTimeout(ctx, setupTime)
	defer cancel()
	p := unsafe.Pointer(unsafe.SliceData(o.PrivateData))
	err := errno(C.rv_accept(c.cm.id, p, C.int(len(o.PrivateData)), C.int(c.readsIn), C.int(c.readsOut)))
	if err != nil {
		return err
	}
	_, err = c.cm.expect(ctx, C.RV_ESTABLISHED)
	return err
}
