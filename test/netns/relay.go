package netns

import (
	"container/heap"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Weather is what a relay does to the frames of UDP port 4791; it leaves others
// alone.
type Weather struct {
	// All applies it to every IP frame.
	All bool
	// Loss, Double and Reorder are probabilities for each frame: to be lost, to
	// be delivered twice, and to be delivered after frames sent later.
	Loss, Double, Reorder float64
	// Delay is each frame's.
	Delay time.Duration
	// Seed makes the random choices repeatable.
	Seed uint64
}

// late is the extra delay of a reordered frame, and of the second copy of a
// doubled one.
const late = 3 * time.Millisecond

// Relay forwards frames between two cards of a namespace.
type Relay struct {
	ways    [2]*way
	run     sync.WaitGroup
	weather atomic.Pointer[Weather]

	// Seen counts frames that the weather applies to; Lost, Doubled and Reordered
	// those that it changed.
	Seen, Lost, Doubled, Reordered atomic.Uint64
}

// way is one direction.
type way struct {
	r       *Relay
	rand    *rand.Rand
	in, out *os.File

	mu    sync.Mutex
	queue frames
	// more wakes runDeliver when the head of the queue has changed.
	more chan struct{}
}

// frame waits until it is to be delivered.
type frame struct {
	at time.Time
	// n keeps frames of the same time in order.
	n uint64
	b []byte
}

// frames is a heap by time.
type frames struct {
	f []frame
	n uint64
}

func (q *frames) Len() int { return len(q.f) }
func (q *frames) Less(i, j int) bool {
	if q.f[i].at.Equal(q.f[j].at) {
		return q.f[i].n < q.f[j].n
	}
	return q.f[i].at.Before(q.f[j].at)
}
func (q *frames) Swap(i, j int) { q.f[i], q.f[j] = q.f[j], q.f[i] }
func (q *frames) Push(x any)    { q.f = append(q.f, x.(frame)) }
func (q *frames) Pop() any {
	x := q.f[len(q.f)-1]
	q.f = q.f[:len(q.f)-1]
	return x
}

// vnetHeader is struct virtio_net_hdr before each frame: with it, checksums that
// the sender left to its card stay right.
const vnetHeader = 10

// openCard opens a card of the caller's namespace for whole frames.
func openCard(name string) (*os.File, error) {
	fd, err := packetSocket(name, unix.SOCK_NONBLOCK, []sockopt{
		{unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1},
		{unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1},
		{unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64 << 20},
		{unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 64 << 20},
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func newRelay(n *NS, w Weather) (*Relay, error) {
	var cards [2]*os.File
	err := n.Do(func() (err error) {
		for i, name := range []string{"to0", "to1"} {
			if cards[i], err = openCard(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		for _, c := range cards {
			if c != nil {
				c.Close()
			}
		}
		return nil, err
	}
	r := new(Relay)
	r.Set(w)
	for i := range r.ways {
		r.ways[i] = &way{r: r, in: cards[i], out: cards[1-i], more: make(chan struct{}, 1),
			rand: rand.New(rand.NewPCG(w.Seed, uint64(i)))}
	}
	for _, x := range r.ways {
		r.run.Add(2)
		go x.runRead()
		go x.runDeliver()
	}
	return r, nil
}

// Set changes the weather for the frames received from now on. The random
// numbers go on from the first seed.
func (r *Relay) Set(w Weather) { r.weather.Store(&w) }

// close ends the relay.
func (r *Relay) close() {
	for _, w := range r.ways {
		w.in.Close()
	}
	r.run.Wait()
}

// maxFrame is a frame of a card whose segmentation was left to the next one.
const maxFrame = vnetHeader + 14 + 1<<16

// runRead takes frames until the card is closed.
func (w *way) runRead() {
	defer w.r.run.Done()
	defer close(w.more)
	b := make([]byte, maxFrame)
	for {
		n, err := w.in.Read(b)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil {
			continue // the card went down for a moment
		}
		w.forward(b[:n])
	}
}

// forward decides what happens to a frame, which it borrows.
func (w *way) forward(b []byte) {
	x := w.r.weather.Load()
	if !isRoCE(b[vnetHeader:]) && !(x.All && isIP(b[vnetHeader:])) {
		w.send(b)
		return
	}
	w.r.Seen.Add(1)
	at := time.Now().Add(x.Delay)
	if w.rand.Float64() < x.Loss {
		w.r.Lost.Add(1)
		return
	}
	if w.rand.Float64() < x.Double {
		w.r.Doubled.Add(1)
		w.later(at.Add(late), b)
	}
	if w.rand.Float64() < x.Reorder {
		w.r.Reordered.Add(1)
		w.later(at.Add(late), b)
		return
	}
	if x.Delay == 0 {
		w.send(b)
		return
	}
	w.later(at, b)
}

// isRoCE reports whether a frame is for UDP port 4791; fragments and extension
// headers are neither sent nor expected.
func isRoCE(f []byte) bool {
	const udp, port = 17, 4791
	switch {
	case len(f) >= 14+20+8 && f[12] == 8 && f[13] == 0:
		return f[23] == udp && binary.BigEndian.Uint16(f[36:]) == port
	case len(f) >= 14+40+8 && f[12] == 0x86 && f[13] == 0xdd:
		return f[20] == udp && binary.BigEndian.Uint16(f[56:]) == port
	}
	return false
}

// isIP reports whether a frame is IP, not ARP or the like.
func isIP(f []byte) bool {
	return len(f) >= 14 && (f[12] == 8 && f[13] == 0 || f[12] == 0x86 && f[13] == 0xdd)
}

// send puts a frame on the other card. What does not fit there is lost.
func (w *way) send(b []byte) { _, _ = w.out.Write(b) }

func (w *way) later(at time.Time, b []byte) {
	w.mu.Lock()
	w.queue.n++
	heap.Push(&w.queue, frame{at, w.queue.n, append([]byte(nil), b...)})
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// runDeliver sends what is due.
func (w *way) runDeliver() {
	defer w.r.run.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		w.mu.Lock()
		wait := time.Hour
		for w.queue.Len() > 0 {
			if wait = time.Until(w.queue.f[0].at); wait > 0 {
				break
			}
			f := heap.Pop(&w.queue).(frame)
			w.mu.Unlock()
			w.send(f.b)
			w.mu.Lock()
			wait = time.Hour
		}
		w.mu.Unlock()
		timer.Reset(wait)
		select {
		case _, ok := <-w.more:
			if !ok {
				return
			}
		case <-timer.C:
		}
	}
}
