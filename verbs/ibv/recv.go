//go:build cgo && linux

package ibv

// #include "shim.h"
import "C"

import (
	"fmt"
	"sync"
	"syscall"

	"github.com/rdmafs/rdmafs/verbs"
)

// recvBatch is how many receives one crossing into C posts.
const recvBatch = 32

// receiver is the way to the receive queue. mu is held while receives are
// posted.
type receiver struct {
	mu sync.Mutex
	wr [recvBatch]C.struct_rv_recv
}

// recvRing holds the IDs of posted receives, which complete in order; conn.mu
// guards it.
type recvRing struct {
	ring       []uint64
	head, tail uint64
	unreaped   int
}

func (r *recvRing) room() int { return len(r.ring) - int(r.tail-r.head) - r.unreaped }

// complete takes the oldest receive. Its place is not free until the completion
// is returned.
func (r *recvRing) complete() (id uint64) {
	id = r.ring[r.head%uint64(len(r.ring))]
	r.head++
	r.unreaped++
	return id
}

// PostRecv implements verbs.QP.
func (c *conn) PostRecv(wr []verbs.RecvWR) (posted int, err error) {
	c.recv.mu.Lock()
	defer c.recv.mu.Unlock()
	for posted < len(wr) && err == nil {
		if err := c.ended(); err != nil {
			return posted, err
		}
		var n int
		n, err = c.encodeRecv(wr[posted:])
		if n == 0 {
			break
		}
		done := C.rv_post_recv(c.qp, &c.recv.wr[0], C.int(n))
		posted += int(done.n)
		if done.error != 0 {
			err = c.lost("receive", fmt.Errorf("the adapter takes no receive: %w", syscall.Errno(done.error)))
			c.fail(err)
		}
	}
	return posted, err
}

// encodeRecv checks receives and makes descriptors of as many as fit.
func (c *conn) encodeRecv(wr []verbs.RecvWR) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := &c.recvs
	for n < len(wr) && n < recvBatch {
		w := &wr[n]
		if q.room() == 0 {
			return n, verbs.ErrQueueFull
		}
		d := &c.recv.wr[n]
		*d = C.struct_rv_recv{id: C.uint64_t(recvBit | q.tail)}
		r, ok := c.dom.find(w.Buf)
		if !ok && w.Buf.Len > 0 {
			return n, &verbs.UsageError{Op: verbs.OpRecv, Why: "segment is not in registered memory"}
		}
		// siw requires a segment even for a zero-length receive.
		if ok {
			d.sge = C.struct_rv_sge{addr: C.uint64_t(r.base + uint64(w.Buf.Off)), len: C.uint32_t(w.Buf.Len), lkey: r.lkey}
		}
		q.ring[q.tail%uint64(len(q.ring))] = w.ID
		q.tail++
		n++
	}
	return n, nil
}
