package nfs4

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// silence is a transport to a fake server that withholds OPENs while it is silent.
type silence struct {
	*fake
	mu     sync.Mutex
	silent chan struct{} // closed when it ends; nil: there is none
}

func (s *silence) Call(ctx context.Context, q *transport.Call) error {
	s.mu.Lock()
	silent := s.silent
	s.mu.Unlock()
	if silent != nil && q.CountAs == uint32(wire.OpOpen) {
		<-silent
	}
	return s.fake.Call(ctx, q)
}

// TestGivenUpUnsent: of the OPENs whose callers have given up while the server is silent, those go on that were sent, and what they
// make is given back; the others end.
func TestGivenUpUnsent(t *testing.T) {
	const slots, calls = 4, 40
	s := &silence{fake: newFake()}
	c, err := Mount(t.Context(), Config{Host: "fake", Export: "/", Minor: 2, Caller: s, Owner: []byte("owner"), Slots: slots})
	if err != nil {
		t.Fatal(err)
	}
	silent := make(chan struct{})
	s.mu.Lock()
	s.silent = silent
	s.mu.Unlock()
	ctx, giveUp := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			if _, err := c.OpenFile(ctx, someone, "file", nfsclient.OpenRead); !errors.Is(err, context.Canceled) {
				t.Errorf("given up: %v", err)
			}
		})
	}
	r := &rig4{T: t, c: c}
	r.await("calls that wait", func() bool { i := c.ses.Info(); return i.Busy == slots-1 && i.Waiting == calls-i.Busy })
	giveUp()
	all.Wait()
	r.await("the end of those that wait", func() bool { return c.ses.Info().Waiting == 0 })
	close(silent)
	r.await("the others", func() bool { return c.ses.Info().Busy == 0 && s.count(wire.OpClose) == slots-1 })
	if n := s.count(wire.OpOpen); n != slots-1 {
		t.Errorf("%d OPENs were sent", n)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
