package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Port is RoCEv2's, on both sides.
const Port = 4791

// Room for bursts of many megabytes, where the system allows it.
const (
	recvBuffer = 16 << 20
	sendBuffer = 4 << 20
)

// Not in package unix.
const udpNoCheck6RX = 102 // linux/udp.h

// InUseError says that another owner of the port keeps us from opening it.
type InUseError struct {
	Addr netip.Addr
	// RXE: the kernel's driver is loaded, which holds the port on every address.
	RXE bool
	err error
}

func (e *InUseError) Error() string {
	at := netip.AddrPortFrom(e.Addr, Port)
	if e.RXE {
		return fmt.Sprintf("UDP %s is taken by the kernel's driver rdma_rxe: use it with rdma=ibv, or unload it (rmmod rdma_rxe)", at)
	}
	return fmt.Sprintf("UDP %s is taken by another program, such as a mount with rdma=roce from this address (or the driver rdma_rxe, with which rdma=ibv works): "+
		"use rdma=iwarp, or another address of this host (srcaddr=)", at)
}

func (e *InUseError) Unwrap() error { return e.err }

// Socket sends and receives on port 4791 of one address, or of all of one
// family.
type Socket struct {
	poller
	local netip.Addr
	// runs: the kernel takes runs of packets. room is the size of the receive buffer.
	runs bool
	room int
	idents
}

// Open opens the port on an address of this host; the unspecified address of
// a family is all of that family. It needs no privilege.
func Open(local netip.Addr) (*Socket, error) {
	if err := usable(local); err != nil {
		return nil, err
	}
	s := &Socket{local: local}
	fd, err := s.bind()
	if err != nil {
		err = fmt.Errorf("listen udp %v: %w", netip.AddrPortFrom(local, Port), err)
		if errors.Is(err, unix.EADDRINUSE) {
			_, missing := os.Stat("/sys/module/rdma_rxe")
			return nil, &InUseError{Addr: local, RXE: missing == nil, err: err}
		}
		return nil, err
	}
	if err := s.init(fd); err != nil {
		return nil, err
	}
	return s, nil
}

// bind makes the socket.
func (s *Socket) bind() (fd int, err error) {
	family, at := unix.AF_INET, unix.Sockaddr(nil)
	if s.local.Is6() {
		family, at = unix.AF_INET6, &unix.SockaddrInet6{Port: Port, Addr: s.local.As16()}
	} else {
		at = &unix.SockaddrInet4{Port: Port, Addr: s.local.As4()}
	}
	fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err = s.tune(fd); err == nil {
		err = os.NewSyscallError("bind", unix.Bind(fd, at))
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// usable refuses addresses that Path and Recv could not distinguish.
func usable(a netip.Addr) error {
	switch {
	case !a.IsValid() || a.Is4In6():
		return fmt.Errorf("%v is neither an IPv4 nor an IPv6 address", a)
	case a.Zone() != "" || a.IsLinkLocalUnicast() && a.Is6():
		return fmt.Errorf("%v: link-local IPv6 addresses are not supported over RoCE; use a global or unique local one", a)
	}
	return nil
}

// tune sets the options of a fresh socket, and sees what it got.
func (s *Socket) tune(fd int) (err error) {
	type option struct{ level, name, value int }
	options := []option{
		{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO}, // see doc.go
		{unix.IPPROTO_IP, unix.IP_PKTINFO, 1},
	}
	if s.local.Is6() {
		options = []option{
			{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1},
			{unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO},
			{unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1},
			// Adapters and rxe send none.
			{unix.SOL_UDP, udpNoCheck6RX, 1},
		}
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return fmt.Errorf("socket option %d/%d: %w", o.level, o.name, err)
		}
	}
	for _, o := range []option{
		{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, recvBuffer},
		{unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, sendBuffer},
	} {
		// The first needs CAP_NET_ADMIN; the second gives what it may.
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, o.level, o.value) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, o.name, o.value)
		}
	}
	// Since Linux 5.0 and 4.18. An older kernel would take a run for one
	// packet.
	_ = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1)
	s.runs = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, 0) == nil
	s.room, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	return err
}

// Room is the size of the receive buffer, in bytes of the kernel's memory.
func (s *Socket) Room() int { return s.room }

// Local is the address that Open was given.
func (s *Socket) Local() netip.Addr { return s.local }

// Close ends the Send and Recv that are under way with net.ErrClosed.
func (s *Socket) Close() error { return s.close() }
