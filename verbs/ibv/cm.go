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
	"time"
	"unsafe"

	"github.com/rdmafs/rdmafs/verbs"
)

// Limits of single steps; the context may be shorter.
const (
	resolveTime = 5 * time.Second
	setupTime   = 10 * time.Second
)

// cmID is one connection manager identifier with an event channel of its own.
type cmID struct {
	ch     *C.struct_rdma_event_channel
	events *poller
	id     *C.struct_rdma_cm_id
}

// newCMID makes an identifier; without one if adopt is set, for the caller to
// put a peer's request there.
func newCMID(adopt bool) (*cmID, error) {
	ch, fd, err := newChannel()
	if err != nil {
		return nil, err
	}
	m := &cmID{ch: ch}
	m.events, err = newPoller(fd, "rdma_cm")
	if err == nil && !adopt {
		err = errno(C.rv_create_id(ch, &m.id))
	}
	if err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// close releases everything. The queue pair must be destroyed, and no goroutine
// may wait for events.
func (m *cmID) close() {
	if m.id != nil {
		C.rv_destroy_id(m.id)
	}
	if m.events != nil {
		m.events.close()
	}
	C.rv_destroy_channel(m.ch)
}

// event is an event of the connection manager.
type event struct {
	id                *C.struct_rdma_cm_id
	kind              C.int32_t
	status            int
	readsIn, readsOut int
	private           []byte
}

// next waits for an event.
func (m *cmID) next(ctx context.Context) (event, error) {
	var e C.struct_rv_event
	for {
		var r C.int
		err := m.events.waitContext(ctx, func(uintptr) bool {
			r = C.rv_event(m.ch, &e)
			return r != -C.int(syscall.EAGAIN)
		})
		switch {
		case errors.Is(err, errWoken):
			if ctx.Err() != nil {
				return event{}, ctx.Err()
			}
			continue
		case err != nil:
			return event{}, err
		case r < 0:
			return event{}, errno(r)
		}
		return event{
			id:   e.id,
			kind: e._type, status: int(e.status),
			readsIn: int(e.reads_in), readsOut: int(e.reads_out),
			private: C.GoBytes(unsafe.Pointer(&e.private_data[0]), e.private_len),
		}, nil
	}
}

// expect waits for the event that ends a step.
func (m *cmID) expect(ctx context.Context, want C.int32_t) (event, error) {
	e, err := m.next(ctx)
	if err != nil {
		return e, err
	}
	if e.kind == want {
		return e, nil
	}
	return e, &stepError{kind: int(e.kind), status: e.status}
}

// stepError is an event that says that set-up failed.
type stepError struct{ kind, status int }

func (e *stepError) Error() string {
	what := map[int]string{
		C.RV_ADDR_ERROR:     "the address cannot be resolved on an RDMA device",
		C.RV_ROUTE_ERROR:    "there is no RDMA path to it",
		C.RV_CONNECT_ERROR:  "connecting failed",
		C.RV_UNREACHABLE:    "no answer to the connection request",
		C.RV_REJECTED:       "rejected",
		C.RV_DISCONNECTED:   "the peer closed the connection",
		C.RV_DEVICE_REMOVAL: "the RDMA device was removed",
		C.RV_ADDR_CHANGE:    "the address moved to another device",
	}[e.kind]
	if what == "" {
		what = fmt.Sprintf("connection event %d", e.kind)
	}
	if e.status < 0 {
		return fmt.Sprintf("%s: %v", what, syscall.Errno(-e.status))
	}
	return what
}

func (e *stepError) Unwrap() error {
	switch {
	case e.status < 0:
		return syscall.Errno(-e.status)
	case e.kind == C.RV_UNREACHABLE:
		return syscall.ETIMEDOUT
	}
	return nil
}

// identity is what the connection manager knows about an identifier.
type identity struct {
	ctx           *C.struct_ibv_context
	port          int
	name          string
	local, remote netip.AddrPort
}

func (m *cmID) identity() identity {
	var i C.struct_rv_id
	C.rv_id(m.id, &i)
	return identity{
		ctx: i.ctx, port: int(i.port), name: goString(i.name[:]),
		local:  (*sockaddr)(unsafe.Pointer(&i.local)).addrPort(),
		remote: (*sockaddr)(unsafe.Pointer(&i.remote)).addrPort(),
	}
}

// resolve finds the device by which a peer is reached, from the address local
// if that is valid, and on the adapter of that name if it is not empty.
func resolve(ctx context.Context, to netip.AddrPort, local netip.Addr, adapter string) (*cmID, error) {
	sources := []netip.Addr{local}
	if adapter != "" && !local.IsValid() {
		sources = addrsOf(adapter, to.Addr())
		if len(sources) == 0 {
			return nil, &UnavailableError{
				Missing: fmt.Sprintf("RDMA device %s has no address of the kind of %s", adapter, to.Addr()),
				Remedy:  "rdmafs devices lists devices and their networks",
			}
		}
	}
	var failed error
	for _, s := range sources {
		m, err := resolveFrom(ctx, to, s)
		if err != nil {
			failed = err
			continue
		}
		got := m.identity().name
		if adapter == "" || got == adapter {
			return m, nil
		}
		m.close()
		failed = fmt.Errorf("address %s belongs to RDMA device %s, not to %s", s, got, adapter)
	}
	return nil, failed
}

func resolveFrom(ctx context.Context, to netip.AddrPort, local netip.Addr) (*cmID, error) {
	m, err := newCMID(false)
	if err != nil {
		return nil, err
	}
	dst := makeSockaddr(to)
	var from unsafe.Pointer
	if local.IsValid() {
		src := makeSockaddr(netip.AddrPortFrom(local, 0))
		from = unsafe.Pointer(&src)
	}
	err = errno(C.rv_resolve_addr(m.id, from, unsafe.Pointer(&dst), C.int(resolveTime.Milliseconds())))
	if err == nil {
		_, err = m.expect(ctx, C.RV_ADDR_RESOLVED)
	}
	if err == nil && m.identity().ctx == nil {
		err = syscall.ENODEV
	}
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL) && local.IsValid():
		err = &UnavailableError{
			Missing: fmt.Sprintf("no RDMA device of this machine has the address %s", local),
			Remedy:  "is srcaddr= right? rdmafs devices lists devices and their networks",
		}
	case errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.EINVAL): // EINVAL: loopback on siw
		err = noRouteError(to.Addr())
	}
	if err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

func noRouteError(to netip.Addr) error {
	return &UnavailableError{
		Missing: fmt.Sprintf("no RDMA device is on the route to %s", to),
		Remedy:  "is the adapter's port up, and does its network have an address? rdmafs devices tells",
	}
}

// addrsOf are this machine's addresses that belong to an adapter.
func addrsOf(adapter string, like netip.Addr) []netip.Addr {
	var found []netip.Addr
	for _, a := range localAddrs(like) {
		m, err := newCMID(false)
		if err != nil {
			return nil
		}
		s := makeSockaddr(netip.AddrPortFrom(a, 0))
		if C.rv_bind(m.id, unsafe.Pointer(&s)) == 0 && m.identity().name == adapter {
			found = append(found, a)
		}
		m.close()
	}
	return found
}

// connError wraps err as the loss of a connection, unless it is a context's.
func connError(ctx context.Context, op string, to netip.AddrPort, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var reject *verbs.RejectError
	if errors.As(err, &reject) {
		return err
	}
	return &verbs.ConnError{Op: op, Remote: to, Err: err}
}
