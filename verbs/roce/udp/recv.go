package udp

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// MaxPacket is the longest packet, with the CRC: headers and 4096 bytes.
	MaxPacket = 4096 + 64

	// inboxSize is how many datagrams one system call yields. Each may be a
	// run of packets that the kernel put together, or left together. More would
	// not stay in a processor's cache until they are looked at.
	inboxSize = 8
	maxData   = 1 << 16
)

// Packet is one that was received.
type Packet struct {
	From, To netip.Addr
	// Data is the UDP payload without the CRC, which has been checked: at
	// least a base transport header, and a multiple of four bytes.
	Data []byte
}

// Inbox has room for packets of one Recv. It must not be copied.
type Inbox struct {
	// Bad counts packets that were thrown away for their length or CRC.
	Bad uint64

	buffers  [inboxSize][maxData]byte
	names    [inboxSize][unix.SizeofSockaddrInet6]byte
	controls [inboxSize][controlSize]byte
	vecs     [inboxSize]unix.Iovec
	msgs     [inboxSize]mmsghdr

	// Of a Recv under way: held is called with the socket, input when there may be
	// something to receive.
	got   int
	err   error
	wait  bool
	fd    uintptr
	held  func(fd uintptr)
	input func(uintptr) bool
	// Of the Next that follow it: the datagram that is looked at next, and what
	// is left of the one before, in packets of a size.
	next   int
	rest   []byte
	size   int
	packet Packet
	sock   *Socket
	now    time.Time
	// seen is the pseudo header of the last packet, src and dst its ends.
	seen     pseudo
	src, dst netip.AddrPort
}

// NewInbox makes an inbox.
func NewInbox() *Inbox {
	in := &Inbox{}
	for i := range in.msgs {
		in.vecs[i].Base = &in.buffers[i][0]
		in.vecs[i].SetLen(len(in.buffers[i]))
		h := &in.msgs[i].hdr
		h.Iov = &in.vecs[i]
		h.SetIovlen(1)
		h.Name = &in.names[i][0]
		h.Control = &in.controls[i][0]
	}
	in.input = func(uintptr) bool { return in.recv() }
	in.held = in.hold
	return in
}

// Recv receives at least one datagram, whose packets Next returns. It ends early with
// os.ErrDeadlineExceeded or net.ErrClosed.
func (s *Socket) Recv(in *Inbox) error {
	return s.recv(in, true)
}

// TryRecv receives what is there by now, if anything.
func (s *Socket) TryRecv(in *Inbox) error {
	return s.recv(in, false)
}

func (s *Socket) recv(in *Inbox, wait bool) error {
	in.sock, in.wait = s, wait
	in.got, in.err = 0, nil
	in.next, in.rest = 0, nil
	if err := s.socket.Control(in.held); err != nil {
		return s.errorOf(err)
	}
	if in.got == 0 {
		return s.errorOf(in.err)
	}
	in.now = time.Now()
	return nil
}

// hold receives, and waits if it is to.
func (in *Inbox) hold(fd uintptr) {
	in.fd = fd
	if !in.wait {
		in.recv()
	} else if err := in.sock.input.Read(in.input); err != nil {
		in.err = err
	}
}

// Next returns the next packet that Recv has received, nil if there is none. It is
// good until the next call. Its CRC is checked only now, so that who copies its bytes finds them in the cache.
func (in *Inbox) Next() *Packet {
	for {
		for len(in.rest) > 0 {
			n := min(in.size, len(in.rest))
			b := in.rest[:n]
			in.rest = in.rest[n:]
			if data, ok := in.open(b); ok {
				in.packet.Data = data
				return &in.packet
			}
			in.Bad++
		}
		if in.next == in.got {
			return nil
		}
		in.begin(in.next)
		in.next++
	}
}

// begin looks at datagram i.
func (in *Inbox) begin(i int) {
	b := in.buffers[i][:in.msgs[i].len]
	src, dst, size, ok := in.ends(i)
	if !ok || len(b) == 0 {
		in.Bad++
		return
	}
	if src != in.src || dst != in.dst {
		in.src, in.dst = src, dst
		in.seen.fill(src, dst)
		in.packet.From, in.packet.To = src.Addr(), dst.Addr()
	}
	if size <= 0 {
		size = len(b)
	}
	in.rest, in.size = b, size
}

// recv makes one system call that yields packets, if there are any.
func (in *Inbox) recv() bool {
	for i := range in.msgs {
		h := &in.msgs[i].hdr
		h.Namelen = uint32(len(in.names[i]))
		h.SetControllen(controlSize)
	}
	for {
		n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, in.fd,
			uintptr(unsafe.Pointer(&in.msgs[0])), inboxSize, unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			in.got = int(n)
			return true
		case unix.EINTR:
		case unix.EAGAIN:
			return !in.wait
		default:
			in.err = os.NewSyscallError("recvmmsg", syscall.Errno(errno))
			return true
		}
	}
}

// open checks a packet between the ends last seen.
func (in *Inbox) open(b []byte) (data []byte, ok bool) {
	n := len(b)
	if n < bthSize+CRCSize || n > MaxPacket || n%4 != 0 {
		return nil, false
	}
	data = b[:n-CRCSize]
	crc := crc32.Update(in.seen.begin(n, data), crc32.IEEETable, data[bthSize:])
	diff := crc ^ binary.LittleEndian.Uint32(b[n-CRCSize:])
	if in.src.Addr().Is4() {
		id, ok := solve(diff, n)
		return data, ok && in.sock.plausible(in.now, in.src.Addr(), id)
	}
	return data, diff == 0
}

// ends reads who sent datagram i, to which address, and the size of the packets
// that it consists of, 0 if it is one.
func (in *Inbox) ends(i int) (src, dst netip.AddrPort, size int, ok bool) {
	name := &in.names[i]
	port := binary.BigEndian.Uint16(name[2:])
	c := in.controls[i][:in.msgs[i].hdr.Controllen]
	for len(c) >= unix.CmsgLen(0) {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&c[0]))
		data := c[unix.CmsgLen(0):]
		switch {
		case h.Level == unix.SOL_UDP && h.Type == unix.UDP_GRO:
			size = int(binary.NativeEndian.Uint32(data))
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO:
			src = netip.AddrPortFrom(netip.AddrFrom4([4]byte(name[4:])), port)
			dst = netip.AddrPortFrom(netip.AddrFrom4([4]byte(data[8:])), Port) // ipi_addr
			ok = true
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO:
			src = netip.AddrPortFrom(netip.AddrFrom16([16]byte(name[8:])), port)
			dst = netip.AddrPortFrom(netip.AddrFrom16([16]byte(data)), Port)
			ok = true
		}
		c = c[min(unix.CmsgSpace(int(h.Len)-unix.CmsgLen(0)), len(c)):]
	}
	return src, dst, size, ok
}
