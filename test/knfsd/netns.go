package knfsd

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
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

// netns is a network namespace without a name: it lives as long as the file
// is open or a process is inside, so a killed test leaves none behind.
type netns struct {
	file *os.File
}

// newNetNS makes a namespace whose loopback is up.
func newNetNS() (*netns, error) {
	n := new(netns)
	err := elsewhere(func() error {
		return os.NewSyscallError("unshare", unix.Unshare(unix.CLONE_NEWNET))
	}, func() (err error) {
		if n.file, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		return ip("link set lo up")
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("knfsd: network namespace: %w", err), n.close())
	}
	return n, nil
}

func (n *netns) close() error {
	if n.file == nil {
		return nil
	}
	return n.file.Close()
}

// path names the namespace to nsenter(1), as long as this process holds it.
func (n *netns) path() string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.file.Fd())
}

// do runs f inside the namespace.
func (n *netns) do(f func() error) error {
	return elsewhere(func() error {
		return os.NewSyscallError("setns", unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET))
	}, f)
}

// openTap makes the host's end of the guest's network. The device is gone when
// the last holder of the file, qemu, closes it.
func (n *netns) openTap(mtu int) (*os.File, error) {
	var tap *os.File
	err := n.do(func() error {
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
		return ip(
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

// elsewhere runs f on a thread that enter has moved to another network
// namespace, and moves the thread back. A thread that cannot return is given
// up: it ends with the goroutine.
func elsewhere(enter, f func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer home.Close()
	if err := enter(); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() {
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return f()
}

// ip runs iproute2's commands in the caller's namespace.
func ip(lines ...string) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, out)
	}
	return nil
}
