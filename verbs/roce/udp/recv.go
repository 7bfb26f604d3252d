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
	// run of packets that the kernel put together, or left together.
	inboxSize = 32
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
	// Packets is what Recv received; good until the next one.
	Packets []Packet
	// Bad counts packets that were thrown away for their length or CRC.
	Bad uint64

	buffers  [inboxSize][maxData]byte
	names    [inboxSize][unix.SizeofSockaddrInet6]byte
	controls [inboxSize][controlSize]byte
	vecs     [inboxSize]unix.Iovec
	msgs     [inboxSize]mmsghdr

	// Of a Recv under way.
	got  int
	err  error
	wait bool
	call func(fd uintptr) bool
	try  func(fd uintptr)
	// seen is the pseudo header of the last packet, src and dst its ends.
	seen     pseudo
	src, dst netip.AddrPort
}

// NewInbox makes an inbox.
func NewInbox() *Inbox {
	in := &Inbox{Packets: make([]Packet, 0, inboxSize*BatchSize)}
	for i := range in.msgs {
		in.vecs[i].Base = &in.buffers[i][0]
		in.vecs[i].SetLen(len(in.buffers[i]))
		h := &in.msgs[i].hdr
		h.Iov = &in.vecs[i]
		h.SetIovlen(1)
		h.Name = &in.names[i][0]
		h.Control = &in.controls[i][0]
	}
	in.call = in.recv
	in.try = func(fd uintptr) { in.recv(fd) }
	return in
}

// Recv fills in.Packets with at least one packet. It ends early with
// os.ErrDeadlineExceeded or net.ErrClosed.
func (s *Socket) Recv(in *Inbox) error {
	in.wait = true
	for {
		in.reset()
		err := s.raw.Read(in.call)
		if err == nil {
			err = in.check(s)
		}
		if err != nil || len(in.Packets) > 0 {
			return err
		}
	}
}

// TryRecv fills in.Packets with what is there by now, if anything.
func (s *Socket) TryRecv(in *Inbox) error {
	in.wait = false
	in.reset()
	if err := s.raw.Control(in.try); err != nil {
		return err
	}
	return in.check(s)
}

func (in *Inbox) reset() {
	in.Packets = in.Packets[:0]
	in.got, in.err = 0, nil
}

// check makes Packets of what the system call yielded.
func (in *Inbox) check(s *Socket) error {
	if in.got == 0 {
		return in.err
	}
	now := time.Now()
	for i := range in.got {
		b := in.buffers[i][:in.msgs[i].len]
		src, dst, size, ok := in.ends(i)
		if !ok || len(b) == 0 {
			in.Bad++
			continue
		}
		if src != in.src || dst != in.dst {
			in.src, in.dst = src, dst
			in.seen.fill(src, dst)
		}
		if size <= 0 {
			size = len(b)
		}
		for len(b) > 0 {
			n := min(size, len(b))
			if data, ok := in.open(s, b[:n], now); ok {
				in.Packets = append(in.Packets, Packet{From: src.Addr(), To: dst.Addr(), Data: data})
			} else {
				in.Bad++
			}
			b = b[n:]
		}
	}
	return nil
}

// recv makes one system call that yields packets, if there are any.
func (in *Inbox) recv(fd uintptr) bool {
	for i := range in.msgs {
		h := &in.msgs[i].hdr
		h.Namelen = uint32(len(in.names[i]))
		h.SetControllen(controlSize)
	}
	for {
		n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, fd,
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
func (in *Inbox) open(s *Socket, b []byte, now time.Time) (data []byte, ok bool) {
	n := len(b)
	if n < bthSize+CRCSize || n > MaxPacket || n%4 != 0 {
		return nil, false
	}
	data = b[:n-CRCSize]
	crc := crc32.Update(in.seen.begin(n, data), crc32.IEEETable, data[bthSize:])
	diff := crc ^ binary.LittleEndian.Uint32(b[n-CRCSize:])
	if in.src.Addr().Is4() {
		id, ok := solve(diff, n)
		return data, ok && s.plausible(now, in.src.Addr(), id)
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
