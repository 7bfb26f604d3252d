package udp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

const (
	// BatchSize is how many packets a Batch holds.
	BatchSize = 64
	// MaxHead is the longest head of a packet: a connection management
	// datagram goes as one.
	MaxHead = 288

	maxPad = 3
)

// mmsghdr is the kernel's; package unix lacks it.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
	_   [4]byte
}

// Batch collects packets to be sent with few system calls. The zero Batch is
// empty and ready; it must not be copied.
type Batch struct {
	n     int
	heads [BatchSize][MaxHead]byte
	// tails are pads and CRCs.
	tails [BatchSize][maxPad + CRCSize]byte
	paths [BatchSize]*Path
	msgs  [BatchSize]mmsghdr
	// vecs holds the pieces of all packets; first tells where each begins.
	vecs  []unix.Iovec
	first [BatchSize + 1]int

	crcOf *Path
	crc   pseudo

	// Of a Send under way.
	sent int
	err  error
	call func(fd uintptr) bool
}

// Len is the number of packets in b.
func (b *Batch) Len() int { return b.n }

// Full reports whether b has no room for another packet.
func (b *Batch) Full() bool { return b.n == BatchSize }

// Add appends a packet: head, which begins with the base transport header, and
// body; the pad to a multiple of four bytes and the CRC are made here. It
// copies head. The bytes of body are borrowed until the batch has been sent,
// and must not change meanwhile, or the CRC is wrong and the packet lost. A
// batch that is full panics.
func (b *Batch) Add(p *Path, head []byte, body mem.Vec) {
	if len(head) < bthSize || len(head) > MaxHead {
		panic(fmt.Sprintf("udp: head of %d bytes", len(head)))
	}
	i := b.n
	pad := -(len(head) + body.Len()) & 3
	n := len(head) + body.Len() + pad + CRCSize
	copy(b.heads[i][:], head)
	if b.crcOf != p {
		b.crcOf, b.crc = p, p.pseudo // paths may be shared, batches not
	}
	sum := b.crc.begin(n, head)
	sum = crc32.Update(sum, crc32.IEEETable, head[bthSize:])
	b.piece(b.heads[i][:len(head)])
	for _, s := range body {
		if s.Len > 0 {
			sum = crc32.Update(sum, crc32.IEEETable, s.Bytes())
			b.piece(s.Bytes())
		}
	}
	tail := b.tails[i][:pad+CRCSize]
	clear(tail[:pad])
	sum = crc32.Update(sum, crc32.IEEETable, tail[:pad])
	binary.LittleEndian.PutUint32(tail[pad:], sum)
	b.piece(tail)
	b.paths[i] = p
	b.n++
	b.first[b.n] = len(b.vecs)
}

func (b *Batch) piece(p []byte) {
	v := unix.Iovec{Base: unsafe.SliceData(p)}
	v.SetLen(len(p))
	b.vecs = append(b.vecs, v)
}

// Send sends the packets of b, waiting for room as long as it takes, and
// empties it. A packet that the kernel refuses counts as lost under way; the
// first such error is returned when the others have been sent.
func (s *Socket) Send(b *Batch) error {
	for i := range b.n {
		p := b.paths[i]
		h := &b.msgs[i].hdr
		h.Name, h.Namelen = &p.name[0], p.nameLen
		h.Control = &p.control[0]
		h.SetControllen(p.ctrlLen)
		h.Iov = &b.vecs[b.first[i]]
		h.SetIovlen(b.first[i+1] - b.first[i])
	}
	if b.call == nil {
		b.call = b.send
	}
	b.sent, b.err = 0, nil
	err := s.raw.Write(b.call)
	if err == nil {
		err = b.err
	}
	b.n, b.vecs = 0, b.vecs[:0]
	return err
}

// send makes system calls until all packets are sent, or the socket is full.
func (b *Batch) send(fd uintptr) bool {
	for b.sent < b.n {
		n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, fd,
			uintptr(unsafe.Pointer(&b.msgs[b.sent])), uintptr(b.n-b.sent), 0, 0, 0)
		switch errno {
		case 0:
			b.sent += int(n)
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		default:
			if b.err == nil {
				b.err = sendError(b.paths[b.sent], errno)
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
