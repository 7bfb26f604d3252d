package udp

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
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

// Batch collects packets to be sent with few system calls. The zero Batch is
// empty and ready; it must not be copied.
type Batch struct {
	n     int
	heads [BatchSize][MaxHead]byte
	// tails are pads and CRCs.
	tails [BatchSize][maxPad + CRCSize]byte
	sizes [BatchSize]int // of UDP payloads
	paths [BatchSize]*Path
	// vecs holds the pieces of all packets; first is where each begins.
	vecs  []unix.Iovec
	first [BatchSize + 1]int
	// apart is how many packets are not to be sent in runs, lastApart how many
	// that was after the last loss, ran how many went in runs since.
	apart, lastApart, ran int

	crcOf *Path
	crc   pseudo

	// Of a Send under way: message m has the packets from begins[m] to
	// begins[m+1].
	made, sent int
	begins     [BatchSize + 1]int
	msgs       [BatchSize]mmsghdr
	controls   [BatchSize][controlSize]byte
	err        error
	call       func(fd uintptr)
	sock       *Socket
}

// Len is the number of packets in b.
func (b *Batch) Len() int { return b.n }

// Full reports whether b has no room for another packet.
func (b *Batch) Full() bool { return b.n == BatchSize }

const (
	apartMin = 256
	apartMax = 1 << 16
	// proofOfRuns is how many packets in runs prove that these are not what gets
	// lost: more than are ever under way.
	proofOfRuns = 1024
)

// Lost makes Send send the next packets one by one, as some seem to have been lost;
// more and more of them if that happens whenever there are runs. See the package's
// documentation.
func (b *Batch) Lost() {
	if b.apart > 0 {
		return
	}
	if b.ran >= proofOfRuns {
		b.lastApart = 0
	}
	b.lastApart = min(max(2*b.lastApart, apartMin), apartMax)
	b.apart, b.ran = b.lastApart, 0
}

// Add appends a packet: head, which begins with the base transport header, and
// body; the pad to a multiple of four bytes and the CRC are made by Send. It
// copies head. The bytes of body are borrowed until the batch has been sent,
// and must not change meanwhile, or the CRC is wrong and the packet lost. A
// batch that is full panics.
func (b *Batch) Add(p *Path, head []byte, body mem.Vec) {
	if len(head) < bthSize || len(head) > MaxHead {
		panic(fmt.Sprintf("udp: head of %d bytes", len(head)))
	}
	i, n := b.n, body.Len()
	copy(b.heads[i][:], head)
	b.piece(b.heads[i][:len(head)])
	for _, s := range body {
		if s.Len > 0 {
			b.piece(s.Bytes())
		}
	}
	tail := b.tails[i][:-(len(head)+n)&3+CRCSize]
	clear(tail)
	b.piece(tail)
	b.sizes[i] = len(head) + n + len(tail)
	b.paths[i] = p
	b.n++
	b.first[b.n] = len(b.vecs)
}

func (b *Batch) piece(p []byte) {
	v := unix.Iovec{Base: unsafe.SliceData(p)}
	v.SetLen(len(p))
	b.vecs = append(b.vecs, v)
}

// seal makes the CRC of packet i, which leaves with an identification.
func (b *Batch) seal(i int, id uint16) {
	if b.crcOf != b.paths[i] {
		b.crcOf, b.crc = b.paths[i], b.paths[i].pseudo // paths may be shared, batches not
	}
	b.crc.identify(id)
	vecs := b.vecs[b.first[i]:b.first[i+1]]
	head := bytesOf(vecs[0])
	sum := crc32.Update(b.crc.begin(b.sizes[i], head), crc32.IEEETable, head[bthSize:])
	for _, v := range vecs[1 : len(vecs)-1] {
		sum = crc32.Update(sum, crc32.IEEETable, bytesOf(v))
	}
	tail := bytesOf(vecs[len(vecs)-1])
	pad := len(tail) - CRCSize
	sum = crc32.Update(sum, crc32.IEEETable, tail[:pad])
	binary.LittleEndian.PutUint32(tail[pad:], sum)
}

func bytesOf(v unix.Iovec) []byte { return unsafe.Slice(v.Base, v.Len) }
