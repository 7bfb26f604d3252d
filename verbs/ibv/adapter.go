//go:build cgo && linux

package ibv

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"unsafe"
)

// adapter is an opened RDMA device. The connection manager's library opens each
// once for the process, and so the asynchronous events have one reader.
type adapter struct {
	ctx    *C.struct_ibv_context
	name   string
	events *poller
	// hold is an identifier on the adapter: the connection manager's library
	// closes an adapter that was removed once no identifier is on it, with all
	// that the domains still have there.
	hold *cmID
	read sync.WaitGroup // runAsync

	mu    sync.Mutex
	conns map[*conn]struct{}
}

// adapters are those in use, with their number of users.
var adapters struct {
	mu    sync.Mutex
	byCtx map[*C.struct_ibv_context]*adapter
	users map[*adapter]int
}

// useAdapter returns the adapter that an identifier is on; release gives it back.
func useAdapter(id identity) (*adapter, error) {
	all, ctx, name := &adapters, id.ctx, id.name
	all.mu.Lock()
	defer all.mu.Unlock()
	if a := all.byCtx[ctx]; a != nil {
		all.users[a]++
		return a, nil
	}
	hold, err := holdAdapter(id)
	if err != nil {
		return nil, err
	}
	fd := C.rv_async_fd(ctx)
	var events *poller
	if err = errno(fd); err == nil {
		events, err = newPoller(int(fd), name+" events")
	}
	if err != nil {
		hold.close()
		return nil, err
	}
	a := &adapter{ctx: ctx, name: name, events: events, hold: hold, conns: make(map[*conn]struct{})}
	if all.byCtx == nil {
		all.byCtx = make(map[*C.struct_ibv_context]*adapter)
		all.users = make(map[*adapter]int)
	}
	all.byCtx[ctx], all.users[a] = a, 1
	a.read.Add(1)
	go a.runAsync()
	return a, nil
}

// holdAdapter makes an identifier on the same adapter as id, by its address. It
// returns none if that address has just been removed.
func holdAdapter(id identity) (*cmID, error) {
	m, err := newCMID(false)
	if err != nil {
		return nil, err
	}
	s := makeSockaddr(netip.AddrPortFrom(id.local.Addr(), 0))
	_ = C.rv_bind(m.id, unsafe.Pointer(&s))
	return m, nil
}

// release ends runAsync with the last user.
func (a *adapter) release() {
	all := &adapters
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.users[a]--; all.users[a] > 0 {
		return
	}
	delete(all.users, a)
	delete(all.byCtx, a.ctx)
	a.events.wake()
	a.read.Wait()
	a.events.close()
	a.hold.close()
}

// runAsync reads asynchronous events until release, and ends the connections
// that they are about.
func (a *adapter) runAsync() {
	defer a.read.Done()
	var e C.struct_rv_async
	for {
		var r C.int
		err := a.events.wait(func(uintptr) bool {
			r = C.rv_async(a.ctx, &e)
			return r != -C.int(syscall.EAGAIN)
		})
		if err != nil {
			return
		}
		if r < 0 {
			a.failAll(fmt.Errorf("events of RDMA device %s cannot be read: %w", a.name, errno(r)), func(*conn) bool { return true })
			return
		}
		a.handle(&e)
	}
}

// handle ends the connections that an event is about.
func (a *adapter) handle(e *C.struct_rv_async) {
	text := goString(e.text[:])
	switch e.kind {
	case C.RV_ASYNC_QP:
		a.failAll(errors.New(text), func(c *conn) bool { return c.qpn == e.qpn })
	case C.RV_ASYNC_CQ:
		a.failAll(errors.New(text), func(c *conn) bool { return c.cqID == uint64(e.cq) })
	case C.RV_ASYNC_PORT:
		a.failAll(fmt.Errorf("port %d of RDMA device %s went down", e.port, a.name), func(c *conn) bool { return c.port == int(e.port) })
	case C.RV_ASYNC_DEVICE:
		a.failAll(fmt.Errorf("RDMA device %s failed: %s", a.name, text), func(*conn) bool { return true })
	}
}

func (a *adapter) failAll(err error, about func(*conn) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.conns {
		if about(c) {
			c.fail(c.lost("device", err))
		}
	}
}

func (a *adapter) add(c *conn) {
	a.mu.Lock()
	a.conns[c] = struct{}{}
	a.mu.Unlock()
}

func (a *adapter) remove(c *conn) {
	a.mu.Lock()
	delete(a.conns, c)
	a.mu.Unlock()
}
