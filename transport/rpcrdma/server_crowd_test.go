package rpcrdma

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/verbstest"
)

// Many clients, all of them slow, share a server that is short of everything:
// transfer memory for a few calls only, few credits, one RDMA Read at a time.
// No call may be left unanswered.
func TestServerCrowd(t *testing.T) {
	const (
		clients, callers, calls = 12, 6, 6
		size                    = 100 << 10
	)
	s := startServer(t, ServerConfig{
		MaxPayload: size, Memory: 1 << 20, ConnMemory: 512 << 10,
		Credits: 8, TotalCredits: 30, ReadDepth: 1,
	})
	ctx := within(t, patience)
	var crowd sync.WaitGroup
	for i := range clients {
		r := dialPeer(t, s.addr, func(c *DialerConfig) {
			var f verbstest.Faults
			f.DelayCompletions(time.Duration(1+i%3) * time.Millisecond)
			c.Device = verbstest.Faulty(c.Device, &f)
			c.MaxPayload, c.NoDDP = size, i%4 == 3
		})
		copy(r.arena.Bytes(), testPattern(callers*size))
		for k := range callers {
			crowd.Go(func() {
				for n := range calls {
					v := mem.Vec{r.arena.Seg(k*size, size)}
					xid := uint32(k*calls + n)
					if err := crowdCall(v, n, func(c *transport.Call) error { return r.Exchange(ctx, xid, c) }); err != nil {
						t.Errorf("client %d, caller %d, call %d: %v", i, k, n, err)
						return
					}
				}
			})
		}
	}
	crowd.Wait()
	if st := s.Stats(); st.Replies != clients*callers*calls || st.Memory.Waits == 0 || st.Drops != 0 {
		t.Errorf("%+v", st)
	}
}

// crowdCall makes a call of one shape or another and checks its result.
func crowdCall(v mem.Vec, n int, do func(*transport.Call) error) error {
	switch n % 3 {
	case 0:
		var got [2]uint32
		if err := do(sumOf(v, &got)); err != nil {
			return err
		}
		if want := crc32.ChecksumIEEE(v[0].Bytes()); got != [2]uint32{uint32(v.Len()), want} {
			return fmt.Errorf("sum %v", got)
		}
	case 1:
		var got int
		if err := do(fillCall(v, v.Len(), &got)); err != nil {
			return err
		}
		if got != v.Len() || !bytes.Equal(v[0].Bytes(), testPattern(got)) {
			return fmt.Errorf("%d bytes, or wrong ones", got)
		}
	default:
		return do(listCall(5000))
	}
	return nil
}
