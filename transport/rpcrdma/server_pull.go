package rpcrdma

import (
	"context"
	"fmt"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// pull fetches the read list's segments, as many at a time as the client
// serves, and waits for them.
func (k *serverCall) pull(ctx context.Context) error {
	c, limit := k.c, k.c.s.dev.Caps().MaxMessage
	k.reads.Store(1)
	for _, p := range k.plan {
		off := p.Off
		for _, s := range k.hdr.Lists.Read[p.First:p.Last] {
			for done := 0; done < int(s.Length); {
				n := min(int(s.Length)-done, limit)
				select {
				case c.reads <- struct{}{}:
				case <-ctx.Done():
					return ctx.Err()
				}
				c.busy.Add(1)
				k.reads.Add(1)
				k.wrs = append(k.wrs[:0], verbs.SendWR{
					ID: uint64(k.id), Op: verbs.OpRead, Signaled: true,
					Local: k.local(k.lease.Slice(off, n)),
					RKey:  s.Handle, Addr: s.Offset + uint64(done),
				})
				if _, err := c.conn.PostSend(k.wrs); err != nil {
					return fmt.Errorf("RDMA Read of %d bytes: %w", n, err)
				}
				c.s.count.reads.Add(1)
				c.s.count.bytesRead.Add(uint64(n))
				off, done = off+n, done+n
			}
		}
	}
	if k.reads.Add(-1) == 0 {
		return nil
	}
	select {
	case <-k.read:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pulled is called for every RDMA Read completed.
func (k *serverCall) pulled() {
	if k.reads.Add(-1) == 0 {
		k.read <- struct{}{}
	}
}

// local makes a scatter list of one segment that stays as it is until the
// reply is planned.
func (k *serverCall) local(s mem.Seg) mem.Vec {
	k.sg = append(k.sg, s)
	return k.sg[len(k.sg)-1:]
}
