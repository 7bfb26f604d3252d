package ibv

import (
	"errors"
	"fmt"
	"net/netip"
)

// Config says which adapter to use and how.
type Config struct {
	// Peer finds the adapter: the one that the route to it leads through. A
	// server names an address of its own.
	Peer netip.AddrPort
	// Local, when valid, is the address to connect from.
	Local netip.Addr
	// Adapter, when not empty, is the only one to use, by its name ("mlx5_0").
	Adapter string
	// Keys says what peers are given.
	Keys Keys
}

// Keys is the kind of key by which a peer reaches memory.
type Keys uint8

const (
	// AutoKeys takes windows where the adapter has them, else regions.
	AutoKeys Keys = iota
	// WindowKeys are type-2 memory windows: the bytes of one call, while it
	// lasts.
	WindowKeys
	// RegionKeys are those of whole registered arenas, for as long as the
	// connection lasts.
	RegionKeys
)

// Windows are the kinds of memory window that a device says it has.
type Windows struct {
	Type1, Type2A, Type2B bool
	// Usable: a window of type 2 could be made.
	Usable bool
}

// ErrNotBuilt says that this program was built without cgo and so cannot
// load rdma-core's libraries.
var ErrNotBuilt = errors.New("this program was built without cgo, which it needs to use RDMA adapters (build with CGO_ENABLED=1)")

// UnavailableError says what the system lacks, and how to get it.
type UnavailableError struct {
	Missing, Remedy string
}

func (e *UnavailableError) Error() string { return fmt.Sprintf("%s (%s)", e.Missing, e.Remedy) }

// PinError says that the limit on locked memory does not let the adapter have
// more.
type PinError struct {
	// Need is what was to be pinned in addition to Pinned, and Limit what
	// RLIMIT_MEMLOCK allows; all in bytes.
	Need, Pinned int
	Limit        uint64
}

func (e *PinError) Error() string {
	return fmt.Sprintf("cannot pin %d KiB of memory for the RDMA adapter beside %d KiB: the limit on locked memory (ulimit -l) is %d KiB; "+
		"raise it with LimitMEMLOCK= in the systemd unit, or memlock in /etc/security/limits.conf",
		(e.Need+1023)>>10, e.Pinned>>10, e.Limit>>10)
}
