package responder

import (
	"context"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// pull fetches the read list's segments, as many at a time as the peer
// serves, and waits for them.
func (k *Call) pull(ctx context.Context) error {
	if len(k.plan) == 0 {
		return nil
	}
	for _, p := range k.plan {
		off := p.Off
		for _, s := range k.Hdr.Lists.Read[p.First:p.Last] {
			for done := 0; done < int(s.Length); {
				n := min(int(s.Length)-done, k.rules.MaxMessage)
				k.WRs = append(k.WRs[:0], verbs.SendWR{
					Op: verbs.OpRead, Local: k.Local(k.lease.Slice(off, n)), RKey: s.Handle, Addr: s.Offset + uint64(done),
				})
				if err := k.host.Read(ctx); err != nil {
					return err
				}
				k.rules.Count.Reads.Add(1)
				k.rules.Count.BytesRead.Add(uint64(n))
				off, done = off+n, done+n
			}
		}
	}
	return k.host.AwaitReads(ctx)
}

// Local makes a scatter list of one segment that stays as it is until the
// reply is planned.
func (k *Call) Local(s mem.Seg) mem.Vec {
	k.sg = append(k.sg, s)
	return k.sg[len(k.sg)-1:]
}
