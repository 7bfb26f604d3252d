package udp

import (
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Bounds of a run beside BatchSize, which is the kernel's least: what fits a
// datagram, and the pieces that it may be gathered from (UIO_MAXIOV).
const (
	maxRun    = 1<<16 - 1 - ip4Size - udpSize
	maxPieces = 1024
)

// mmsghdr is the kernel's; package unix lacks it.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
	_   [4]byte
}

// Send sends the packets of b, waiting for room as long as it takes, and
// empties it. A packet that the kernel refuses counts as lost under way; the
// first such error is returned when the others have been sent.
func (s *Socket) Send(b *Batch) error {
	if !s.runs {
		b.apart = math.MaxInt
	}
	if b.call == nil {
		b.call = b.sendAll
	}
	b.err, b.sock = nil, s
	b.plan(0)
	err := s.errorOf(s.socket.Control(b.call))
	if err == nil {
		err = b.err
	}
	b.n, b.vecs = 0, b.vecs[:0]
	return err
}

// plan makes messages of the packets from i on.
func (b *Batch) plan(i int) {
	b.made, b.sent, b.begins[0] = 0, 0, i
	for i < b.n {
		n := 1
		if b.apart > 0 {
			b.apart--
		} else {
			n = b.run(i)
		}
		if n > 1 {
			b.ran += n
		}
		for k := range n {
			b.seal(i+k, uint16(k))
		}
		b.message(i, n)
		i += n
		b.made++
		b.begins[b.made] = i
	}
}

// run is how many packets from i on can leave as one datagram that is cut
// later: they have the same path and size, but the last may be shorter.
func (b *Batch) run(i int) int {
	n, sum := 1, b.sizes[i]
	for j := i + 1; j < b.n && b.paths[j] == b.paths[i] && b.sizes[j] <= b.sizes[i]; j++ {
		sum += b.sizes[j]
		if sum > maxRun || b.first[j+1]-b.first[i] > maxPieces {
			break
		}
		n++
		if b.sizes[j] < b.sizes[i] {
			break
		}
	}
	return n
}

// message makes the next message, of n packets from i on.
func (b *Batch) message(i, n int) {
	p := b.paths[i]
	h := &b.msgs[b.made].hdr
	h.Name, h.Namelen = &p.name[0], p.nameLen
	h.Iov = &b.vecs[b.first[i]]
	h.SetIovlen(b.first[i+n] - b.first[i])
	h.Control = &p.control[0]
	size := p.ctrlLen
	if n > 1 {
		c := &b.controls[b.made]
		copy(c[:], p.control[:size])
		cm := (*unix.Cmsghdr)(unsafe.Pointer(&c[size]))
		cm.Level, cm.Type = unix.SOL_UDP, unix.UDP_SEGMENT
		cm.SetLen(unix.CmsgLen(2))
		*(*uint16)(unsafe.Pointer(&c[size+unix.CmsgLen(0)])) = uint16(b.sizes[i])
		h.Control = &c[0]
		size += unix.CmsgSpace(2)
	}
	h.SetControllen(size)
}

// sendAll sends all packets.
func (b *Batch) sendAll(fd uintptr) {
	for !b.send(fd) {
		if err := b.sock.awaitRoom(fd); err != nil {
			b.err = err
			return
		}
	}
}

// send makes system calls until all packets are sent, or the socket is full.
func (b *Batch) send(fd uintptr) bool {
	for b.sent < b.made {
		n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, fd,
			uintptr(unsafe.Pointer(&b.msgs[b.sent])), uintptr(b.made-b.sent), unix.MSG_DONTWAIT, 0, 0)
		i := b.begins[b.sent]
		switch {
		case errno == 0:
			b.sent += int(n)
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			return false
		case b.begins[b.sent+1]-i > 1:
			// The kernel may refuse a run and take its packets:
			// not every device takes runs, and none a path with IPsec.
			b.apart = math.MaxInt
			b.plan(i)
		default:
			if b.err == nil {
				b.err = sendError(b.paths[i], errno)
			}
			b.sent++
		}
	}
	return true
}

func sendError(p *Path, errno syscall.Errno) error {
	err := error(os.NewSyscallError("sendmmsg", errno))
	if errors.Is(errno, unix.EMSGSIZE) {
		err = fmt.Errorf("%w (the path takes only smaller packets now)", err)
	}
	return fmt.Errorf("send from %v to %v: %w", p.from, p.to, err)
}
