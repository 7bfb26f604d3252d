package nfstest

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// heldReads is a server's handler that withholds the replies to READs. The server has done with such a call, and its
// being under way keeps no lease.
type heldReads struct {
	transport.Handler
	mu    sync.Mutex
	until chan struct{}
}

// readMark is the key of a context's value, a *bool that says whether a compound has a READ.
type readMark struct{}

func (r *heldReads) wrap(h transport.Handler) transport.Handler {
	r.Handler = h
	return r
}

// hold withholds replies until release is called.
func (r *heldReads) hold() (release func()) {
	until := make(chan struct{})
	set := func(c chan struct{}) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.until = c
	}
	set(until)
	return func() {
		set(nil)
		close(until)
	}
}

func (r *heldReads) operation(ctx context.Context, o wire.Operation) wire.Status {
	if _, ok := o.(*wire.Read); ok {
		if mark, ok := ctx.Value(readMark{}).(*bool); ok {
			*mark = true
		}
	}
	return wire.OK
}

func (r *heldReads) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	mark := new(bool)
	st := r.Handler.Serve(context.WithValue(ctx, readMark{}, mark), q)
	r.mu.Lock()
	until := r.until
	r.mu.Unlock()
	if *mark && until != nil {
		<-until
	}
	return st
}

// TestOwn4Lease: over RDMA, with few credits, and more calls that the server does not answer than there are credits, the lease
// is renewed: nobody gets a lock that the client has.
func TestOwn4Lease(t *testing.T) {
	const lease, credits, calls = 2 * time.Second, 8, 40
	eachMinor(t, func(t *testing.T, minor uint32) {
		held := &heldReads{}
		cfg := nfsd.Config{Versions: nfsd.V41 | nfsd.V42, Lease: lease,
			Exports: []nfsd.Export{{Dir: t.TempDir(), Path: "/below/export", Squash: nfsd.SquashNone, Async: true}},
			Wrap:    held.wrap, Faults: &nfsd.Faults{Operation: held.operation}}
		if err := os.Chmod(cfg.Exports[0].Dir, 0o777); err != nil {
			t.Fatal(err)
		}
		s, err := nfsd.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		dev := iwarp.Open(iwarp.Config{})
		t.Cleanup(func() {
			if err := errors.Join(s.Close(), dev.Close()); err != nil {
				t.Error(err)
			}
		})
		viaTCP, err := s.ListenTCP("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		viaRDMA, err := s.ListenRDMA(dev, "127.0.0.1:0", rpcrdma.ServerConfig{Credits: credits})
		if err != nil {
			t.Fatal(err)
		}
		nfs, _ := backRDMA(t, viaRDMA)
		a, b := newUser4(t, nfs, minor, "/below/export"), newUser4(t, dialHard(t, viaTCP), minor, "/below/export")
		h, st := a.create("held")
		a.write(h, st, 0, "data")
		a.must(a.set(a.Context(), h, st, 1, nfsclient.WriteLock, 0, 9))
		bst := b.open(h, nfsclient.OpenRead|nfsclient.OpenWrite)

		release := held.hold()
		var reads sync.WaitGroup
		for i := range calls {
			v := mem.Vec{a.buf.Seg(i*4, 4)}
			reads.Go(func() {
				if r, err := a.c.Read(a.Context(), nfsclient.Cred{}, h, st, 0, v); err != nil || r.N != 4 {
					t.Errorf("read: %+v, %v", r, err)
				}
			})
		}
		for end := time.Now().Add(3 * lease); time.Now().Before(end); time.Sleep(lease / 10) { // it is time that must pass
			if err := b.set(b.Context(), h, bst, 1, nfsclient.WriteLock, 0, 9); !errors.Is(err, nfsclient.ErrLocked) {
				t.Errorf("a lock of a client that waits for the server: %v", err)
				break
			}
		}
		release()
		reads.Wait()
		if err := a.lost.of(1); err != nil {
			t.Errorf("the owner was told %v", err)
		}
		a.close(h, st)
		b.close(h, bst)
	})
}
