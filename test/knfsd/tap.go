package knfsd

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/netns"
)

const tunDevice = "/dev/net/tun"

// HostAddr and GuestAddr are the two ends of a Tap network.
var (
	HostAddr  = netip.AddrFrom4([4]byte{10, 99, 0, 1})
	GuestAddr = netip.AddrFrom4([4]byte{10, 99, 0, 2})
)

// In the user network qemu plays the host.
var (
	slirpHost  = netip.AddrFrom4([4]byte{10, 0, 2, 2})
	slirpGuest = netip.AddrFrom4([4]byte{10, 0, 2, 15})
)

// tapName is the device's name; the namespace has no other.
const tapName = "tap0"

// openTap makes the host's end of the guest's network. The device is gone when
// the last holder of the file closes it: the Guest, so that the host keeps its
// address while the guest is without power.
func openTap(n *netns.NS, mtu int) (*os.File, error) {
	var tap *os.File
	err := n.Do(func() error {
		fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return &os.PathError{Op: "open", Path: tunDevice, Err: err}
		}
		tap = os.NewFile(uintptr(fd), tunDevice)
		request, err := unix.NewIfreq(tapName)
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
			return os.NewSyscallError("TUNSETIFF", err)
		}
		return netns.IP(
			fmt.Sprintf("link set %s mtu %d", tapName, mtu),
			fmt.Sprintf("addr add %v/24 dev %s", HostAddr, tapName),
			fmt.Sprintf("link set %s up", tapName),
		)
	})
	if err != nil {
		if tap != nil {
			err = errors.Join(err, tap.Close())
		}
		return nil, fmt.Errorf("knfsd: tap: %w", err)
	}
	return tap, nil
}
