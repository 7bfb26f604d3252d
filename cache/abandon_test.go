package cache

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// stuck has the first call of op stay on its way to the server, where it is
// carried out when let go of; its caller may give up on it meanwhile.
type stuck struct {
	nfsclient.Client
	op      string
	once    sync.Once
	came    chan struct{} // closed when the call has come
	release chan struct{}
	late    sync.WaitGroup // the call
}

func newStuck(f *fake, op string) *stuck {
	return &stuck{Client: f, op: op, came: make(chan struct{}), release: make(chan struct{})}
}

// delay carries out do; the first call only after release.
func (s *stuck) delay(ctx context.Context, op string, do func(context.Context) error) error {
	first := false
	if op == s.op {
		s.once.Do(func() { first = true })
	}
	if !first {
		return do(ctx)
	}
	done := make(chan error, 1)
	s.late.Go(func() {
		<-s.release
		done <- do(context.WithoutCancel(ctx))
	})
	close(s.came)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *stuck) SetAttr(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, a nfsclient.SetAttr) (w nfsclient.Wcc, err error) {
	var late nfsclient.Wcc
	if err = s.delay(ctx, "SETATTR", func(ctx context.Context) (err error) {
		late, err = s.Client.SetAttr(ctx, cr, h, st, a)
		return err
	}); err == nil {
		w = late
	}
	return w, err
}

func (s *stuck) Write(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, off uint64, from mem.Vec, how nfsclient.Stable) (r nfsclient.WriteResult, err error) {
	sent, err := mem.NewArena(from.Len()) // the buffer is the caller's again once it gave up
	if err != nil {
		return r, err
	}
	seg := sent.Seg(0, from.Len())
	from.CopyOut(0, seg.Bytes())
	var late nfsclient.WriteResult
	if err = s.delay(ctx, "WRITE", func(ctx context.Context) (err error) {
		late, err = s.Client.Write(ctx, cr, h, st, off, mem.Vec{seg}, how)
		return errors.Join(err, sent.Close())
	}); err == nil {
		r = late
	}
	return r, err
}

// Who is killed gives up on a call that the server may carry out much later. What
// is acknowledged in the meantime must not be undone by it.
func TestGivenUpDoesNotOvertake(t *testing.T) {
	for _, c := range []struct {
		name, op string
		mode     OpenMode
		do       func(ctx context.Context, c *Cache, f *File) error
	}{
		{"fsync", "WRITE", rw, func(ctx context.Context, _ *Cache, f *File) error {
			if _, err := f.Write(ctx, []byte("old"), 0); err != nil {
				return err
			}
			return f.Fsync(ctx)
		}},
		{"direct write", "WRITE", OpenMode{Read: true, Write: true, Direct: true}, func(ctx context.Context, _ *Cache, f *File) error {
			_, err := f.Write(ctx, []byte("old"), 0)
			return err
		}},
		{"truncation", "SETATTR", rw, func(ctx context.Context, c *Cache, f *File) error {
			var none uint64
			_, _, err := c.SetAttr(ctx, alice, f.i, nfsclient.SetAttr{Size: &none})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := newFake(t)
			srv.foreign("a", []byte("content"))
			slow := newStuck(srv, c.op)
			cache := newCache(t, slow, testConfig())
			f, _ := open(t, cache, "a", c.mode)
			defer f.Release()
			killed, kill := context.WithCancel(ctx)
			gone := make(chan error)
			go func() { gone <- c.do(killed, cache, f) }()
			<-slow.came
			kill()
			if err := <-gone; !errors.Is(err, context.Canceled) {
				t.Fatalf("who was killed got %v", err)
			}
			// However long this may take, it either waits or must last.
			impatient, end := context.WithTimeout(ctx, 50*time.Millisecond)
			defer end()
			_, err := f.Write(impatient, []byte("newer"), 0)
			if err == nil {
				err = f.Fsync(impatient)
			}
			close(slow.release)
			if err != nil {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				write(t, f, []byte("newer"), 0)
				check(t, f.Fsync(ctx))
			}
			slow.late.Wait()
			if got := srv.content("a"); !bytes.HasPrefix(got, []byte("newer")) {
				t.Fatalf("the server has %q", got)
			}
		})
	}
}
