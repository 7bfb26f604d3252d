package netns

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
)

type sockopt struct{ level, name, value int }

// packetSocket opens a card of the caller's namespace, to see every frame.
func packetSocket(card string, flags int, options []sockopt) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|flags, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return -1, os.NewSyscallError("setsockopt", err)
		}
	}
	r, err := unix.NewIfreq(card)
	if err != nil {
		return -1, err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, r); err != nil {
		return -1, os.NewSyscallError("SIOCGIFINDEX", err)
	}
	// The kernel takes the protocol in network byte order.
	all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: int(r.Uint32())}); err != nil {
		return -1, os.NewSyscallError("bind", err)
	}
	return fd, nil
}
