package provider

import (
	"fmt"
	"sync"

	"github.com/rdmafs/rdmafs/verbs"
)

// Uses counts what must be closed before a device. The zero Uses is that of an
// open device.
type Uses struct {
	mu      sync.Mutex
	conns   int // connections, pending set-ups and listeners
	regions int
	closed  bool
}

// Hold counts a connection or listener, until Release. It fails once the device
// is closed.
func (u *Uses) Hold() error { return u.hold(&u.conns) }

// Release ends a Hold.
func (u *Uses) Release() { u.release(&u.conns) }

// HoldRegion counts a registered arena, until ReleaseRegion. It fails once the
// device is closed.
func (u *Uses) HoldRegion() error { return u.hold(&u.regions) }

// ReleaseRegion ends a HoldRegion.
func (u *Uses) ReleaseRegion() { u.release(&u.regions) }

func (u *Uses) hold(n *int) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return verbs.ErrClosed
	}
	*n++
	return nil
}

func (u *Uses) release(n *int) {
	u.mu.Lock()
	*n--
	u.mu.Unlock()
}

// Closed reports whether CloseUnused has succeeded.
func (u *Uses) Closed() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.closed
}

// CloseUnused closes a device that nothing holds; otherwise the error names the
// provider. It may be called again.
func (u *Uses) CloseUnused(provider string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conns > 0 || u.regions > 0 {
		return fmt.Errorf("%s: device closed with %d connections or listeners and %d regions left", provider, u.conns, u.regions)
	}
	u.closed = true
	return nil
}
