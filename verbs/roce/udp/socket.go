package udp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

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
	conn  *net.UDPConn
	raw   syscall.RawConn
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
	network := "udp4"
	if local.Is6() {
		network = "udp6"
	}
	s := &Socket{local: local}
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return s.tune(raw, local.Is6())
	}}
	c, err := lc.ListenPacket(context.Background(), network, netip.AddrPortFrom(local, Port).String())
	if err != nil {
		if errors.Is(err, unix.EADDRINUSE) {
			_, missing := os.Stat("/sys/module/rdma_rxe")
			return nil, &InUseError{Addr: local, RXE: missing == nil, err: err}
		}
		return nil, err
	}
	s.conn = c.(*net.UDPConn)
	if s.raw, err = s.conn.SyscallConn(); err != nil {
		s.conn.Close()
		return nil, err
	}
	return s, nil
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
func (s *Socket) tune(raw syscall.RawConn, v6 bool) error {
	type option struct{ level, name, value int }
	options := []option{
		{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO}, // see doc.go
		{unix.IPPROTO_IP, unix.IP_PKTINFO, 1},
	}
	if v6 {
		options = []option{
			{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1},
			{unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO},
			{unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1},
			// Adapters and rxe send none.
			{unix.SOL_UDP, udpNoCheck6RX, 1},
		}
	}
	var opt error
	err := raw.Control(func(fd uintptr) {
		for _, o := range options {
			if opt = unix.SetsockoptInt(int(fd), o.level, o.name, o.value); opt != nil {
				opt = fmt.Errorf("socket option %d/%d: %w", o.level, o.name, opt)
				return
			}
		}
		for _, o := range []option{
			{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, recvBuffer},
			{unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, sendBuffer},
		} {
			// The first needs CAP_NET_ADMIN; the second gives what it may.
			if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, o.level, o.value) != nil {
				_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, o.name, o.value)
			}
		}
		// Since Linux 5.0 and 4.18. An older kernel would take a run for one
		// packet.
		_ = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_GRO, 1)
		s.runs = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, 0) == nil
		s.room, opt = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
	})
	return errors.Join(err, opt)
}

// Room is the size of the receive buffer, in bytes of the kernel's memory.
func (s *Socket) Room() int { return s.room }

// Local is the address that Open was given.
func (s *Socket) Local() netip.Addr { return s.local }

// SetReadDeadline ends a Recv that waits, now or later, with
// os.ErrDeadlineExceeded at t; a zero t is never.
func (s *Socket) SetReadDeadline(t time.Time) error { return s.conn.SetReadDeadline(t) }

// Close ends the Send and Recv that are under way with net.ErrClosed.
func (s *Socket) Close() error { return s.conn.Close() }
