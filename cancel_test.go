package rdmafs

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/must"
	"github.com/rdmafs/rdmafs/test/nfsd"
)

// silent is a server that answers no call of one procedure once it is told to.
type silent struct {
	proc  atomic.Uint32
	asked chan struct{} // a token when such a call has come
	speak chan struct{} // closed: it answers
}

func newSilent(t testing.TB) (*silent, *server) {
	s := &silent{asked: make(chan struct{}, 100), speak: make(chan struct{})}
	v := serve(t, failing(nfsd.Faults{Before: func(ctx context.Context, e nfsd.Event) nfsd.Action {
		if p := s.proc.Load(); p != 0 && e.Prog == wire.NFSProgram && e.Proc == p {
			s.asked <- struct{}{}
			select {
			case <-s.speak:
			case <-ctx.Done():
			}
		}
		return nfsd.Proceed
	}}))
	return s, v
}

// TestContext: a call that waits for the server ends with its context, and what
// does not carry that context goes on.
func TestContext(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			s, v := newSilent(t)
			v.tree(t)
			f := v.open(t, network)
			o := must.Get[*File](t)(f.OpenFile("d/b", 0, 0))
			s.proc.Store(wire.ProcRead)
			ctx, cancel := context.WithCancelCause(context.Background())
			ended, other := make(chan error), make(chan error)
			go func() { ended <- second(o.WithContext(ctx).Read(make([]byte, 10))) }()
			<-s.asked
			go func() { other <- second(o.ReadAt(make([]byte, 10), 0)) }()
			cancel(errors.New("enough"))
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled Read: %v", err)
			}
			if err := second(f.WithContext(ctx).Stat("a")); !errors.Is(err, context.Canceled) {
				t.Errorf("Stat with a context that has ended: %v", err)
			}
			close(s.speak)
			if err := <-other; err != nil {
				t.Errorf("another ReadAt: %v", err)
			}
			if n, err := o.Read(make([]byte, 10)); n != 10 || err != nil {
				t.Errorf("Read afterwards: %d, %v", n, err)
			}
			must.Do(t, o.Close())
		})
	}
}

// TestCloseGivesUp: FS.Close ends with its context though the server does not
// answer, ends the calls that wait, and says what was not written.
func TestCloseGivesUp(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			s, v := newSilent(t)
			f := v.open(t, network)
			o := must.Get[*File](t)(f.Create("file"))
			s.proc.Store(wire.ProcWrite)
			must.Get[int](t)(o.Write([]byte("never written")))
			waits := make(chan error)
			go func() { waits <- o.Sync() }()
			<-s.asked
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error)
			go func() { ended <- f.Close(ctx) }()
			cancel()
			if err := <-waits; !errors.Is(err, fs.ErrClosed) {
				t.Errorf("Sync: %v", err)
			}
			if err := <-ended; err == nil {
				t.Error("Close lost data and does not say so")
			} else {
				t.Log(err)
			}
			close(s.speak)
		})
	}
}
