package cache

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport"
)

// silentServer is a fake that can fall silent: a call waits then until its context ends, or the
// server speaks again. waits has a token for each call that does.
type silentServer struct {
	*fake
	waits chan string

	mu    sync.Mutex
	speak chan struct{} // nil: it speaks
	soft  error         // a call fails with it instead of waiting
}

func newSilentServer(t *testing.T) *silentServer {
	return &silentServer{fake: newFake(t), waits: make(chan string, 100)}
}

func (s *silentServer) silence(soft error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.speak, s.soft = make(chan struct{}), soft
}

func (s *silentServer) talk() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.speak != nil {
		close(s.speak)
		s.speak = nil
	}
}

// await is the fate of a call.
func (s *silentServer) await(ctx context.Context, op string) error {
	s.mu.Lock()
	speak, soft := s.speak, s.soft
	s.mu.Unlock()
	if speak == nil {
		return nil
	}
	s.waits <- op
	if soft != nil {
		return &transport.Error{Fate: transport.Unknown, Err: soft}
	}
	select {
	case <-speak:
		return nil
	case <-ctx.Done():
		return &transport.Error{Fate: transport.Unknown, Err: ctx.Err()}
	}
}

func (s *silentServer) GetAttr(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle) (nfsclient.Attr, error) {
	if err := s.await(ctx, "GETATTR"); err != nil {
		return nfsclient.Attr{}, err
	}
	return s.fake.GetAttr(ctx, cr, h)
}

func (s *silentServer) Lookup(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string) (nfsclient.Found, error) {
	if err := s.await(ctx, "LOOKUP"); err != nil {
		return nfsclient.Found{}, err
	}
	return s.fake.Lookup(ctx, cr, dir, name)
}

func (s *silentServer) Access(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, want nfsclient.AccessMask) (nfsclient.AccessMask, *nfsclient.Attr, error) {
	if err := s.await(ctx, "ACCESS"); err != nil {
		return 0, nil, err
	}
	return s.fake.Access(ctx, cr, h, want)
}

// soon is a Config.SoftReval whose time is over as soon as the call waits.
func (s *silentServer) soon(ctx context.Context) (context.Context, context.CancelFunc) {
	s.mu.Lock()
	speak := s.speak
	s.mu.Unlock()
	if speak == nil {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, time.Unix(0, 0))
}

// took is which calls have waited since it was last called.
func (s *silentServer) took() (ops []string) {
	for {
		select {
		case op := <-s.waits:
			ops = append(ops, op)
		default:
			return ops
		}
	}
}

// TestSoftReval: with softreval names, attributes and rights that have expired are used while the server is
// silent, and the kernel may keep none of them; each is asked for once. What was never known, a name that did
// not exist, and opening wait; without softreval everything does.
func TestSoftReval(t *testing.T) {
	s, k := newSilentServer(t), newClock()
	s.foreign("a", []byte("old"))
	cfg := testConfig()
	cfg.Now, cfg.SoftReval = k.now, s.soon
	c := newCache(t, s, cfg)
	i := lookup(t, c, "a").Inode
	i.refs.Add(1)
	defer i.unpin()
	got, err := c.Access(ctx, alice, i, nfsclient.AccessRead)
	check(t, err)
	_, err = c.Lookup(ctx, alice, c.Root(), "none")
	if status(err) != nfsclient.ErrNoEnt {
		t.Fatal(err)
	}
	k.advance(2 * time.Hour)
	s.silence(nil)

	e, err := c.Lookup(ctx, alice, c.Root(), "a")
	if err != nil || e.Inode != i || e.Attr.Size != 3 || e.EntryTTL != 0 || e.AttrTTL != 0 {
		t.Errorf("lookup: %+v, %v", e, err)
	}
	if err == nil {
		c.Forget(e.Inode, 1)
	}
	a, ttl, err := c.GetAttr(ctx, alice, i)
	if err != nil || a.Size != 3 || ttl != 0 {
		t.Errorf("attributes: size %d for %v, %v", a.Size, ttl, err)
	}
	if again, err := c.Access(ctx, alice, i, nfsclient.AccessRead); err != nil || again != got {
		t.Errorf("rights: %v instead of %v, %v", again, got, err)
	}
	if ops := s.took(); !slices.Equal(ops, []string{"LOOKUP", "GETATTR", "ACCESS"}) {
		t.Errorf("asked %v", ops)
	}

	waiting := map[string]func() error{
		"a name of which nothing is known": func() error {
			e, err := c.Lookup(ctx, alice, c.Root(), "b")
			if err == nil {
				c.Forget(e.Inode, 1)
			}
			return err
		},
		"a name that did not exist": func() error { _, err := c.Lookup(ctx, alice, c.Root(), "none"); return err },
		"a user who has never come here": func() error {
			e, err := c.Lookup(ctx, bob, c.Root(), "a")
			if err == nil {
				c.Forget(e.Inode, 1)
			}
			return err
		},
		"rights that were not asked for": func() error {
			_, err := c.Access(ctx, nfsclient.Cred{UID: 1002, GID: 1002}, i, nfsclient.AccessRead)
			return err
		},
		"opening": func() error {
			f, _, err := c.Open(ctx, alice, i, OpenMode{Read: true})
			if err == nil {
				f.Release()
			}
			return err
		},
	}
	for what, try := range waiting {
		k.advance(2 * time.Hour)
		s.silence(nil)
		done := make(chan error, 1)
		go func() { done <- try() }()
		<-s.waits
		if what != "opening" {
			<-s.waits // the call that has no limit
		}
		select {
		case err := <-done:
			t.Errorf("%s did not wait: %v", what, err)
		default:
		}
		s.talk()
		if err := <-done; err != nil && status(err) != nfsclient.ErrNoEnt {
			t.Errorf("%s: %v once the server speaks", what, err)
		}
	}
}

// TestSoftRevalInvalid: attributes that were overtaken are not used, nor is a name after its directory has
// changed; the caller's own end of a call is an error, and no silence.
func TestSoftRevalInvalid(t *testing.T) {
	s, k := newSilentServer(t), newClock()
	s.foreign("a", []byte("old"))
	cfg := testConfig()
	cfg.Now, cfg.SoftReval = k.now, s.soon
	c := newCache(t, s, cfg)
	i := lookup(t, c, "a").Inode
	i.refs.Add(1)
	defer i.unpin()
	k.advance(2 * time.Hour)

	s.silence(nil)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.Lookup(gone, alice, c.Root(), "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("lookup of a caller who has gone: %v", err)
	}
	if _, _, err := c.GetAttr(gone, alice, i); !errors.Is(err, context.Canceled) {
		t.Errorf("attributes for a caller who has gone: %v", err)
	}
	s.took()

	i.mu.Lock()
	i.node.Invalidate()
	i.mu.Unlock()
	c.root.mu.Lock()
	c.root.forgetNames(false)
	c.root.mu.Unlock()
	for what, try := range map[string]func() error{
		"attributes": func() error { _, _, err := c.GetAttr(ctx, alice, i); return err },
		"a name": func() error {
			e, err := c.Lookup(ctx, alice, c.Root(), "a")
			if err == nil {
				c.Forget(e.Inode, 1)
			}
			return err
		},
	} {
		s.silence(nil)
		done := make(chan error, 1)
		go func() { done <- try() }()
		<-s.waits
		<-s.waits
		select {
		case err := <-done:
			t.Errorf("%s: %v, without waiting for the server", what, err)
		default:
		}
		s.talk()
		if err := <-done; err != nil {
			t.Errorf("%s: %v once the server speaks", what, err)
		}
		i.mu.Lock()
		i.node.Invalidate()
		i.mu.Unlock()
	}
}

// TestSoftRevalOfSoftMount: where the client itself gives up, what is cached is used too; for the rest its error
// is the answer, after one call.
func TestSoftRevalOfSoftMount(t *testing.T) {
	for _, soft := range []error{transport.ErrTimeout, transport.ErrTimedOut} {
		s, k := newSilentServer(t), newClock()
		s.foreign("a", []byte("old"))
		cfg := testConfig()
		cfg.Now = k.now
		cfg.SoftReval = func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) }
		c := newCache(t, s, cfg)
		i := lookup(t, c, "a").Inode
		i.refs.Add(1)
		k.advance(2 * time.Hour)
		s.silence(soft)
		e, err := c.Lookup(ctx, alice, c.Root(), "a")
		check(t, err)
		c.Forget(e.Inode, 1)
		_, _, err = c.GetAttr(ctx, alice, i)
		check(t, err)
		s.took()
		if _, err := c.Lookup(ctx, alice, c.Root(), "b"); !errors.Is(err, soft) {
			t.Errorf("a name of which nothing is known: %v, want %v", err, soft)
		}
		if _, err := c.Access(ctx, bob, i, nfsclient.AccessRead); !errors.Is(err, soft) {
			t.Errorf("rights that were not asked for: %v, want %v", err, soft)
		}
		i.mu.Lock()
		i.node.Invalidate()
		i.mu.Unlock()
		if _, _, err := c.GetAttr(ctx, alice, i); !errors.Is(err, soft) {
			t.Errorf("attributes that were overtaken: %v, want %v", err, soft)
		}
		if ops := s.took(); !slices.Equal(ops, []string{"LOOKUP", "ACCESS", "GETATTR"}) {
			t.Errorf("asked %v", ops)
		}
		s.talk()
		i.unpin()
	}
}

// TestNoSoftReval: without softreval a name that has expired waits for the server.
func TestNoSoftReval(t *testing.T) {
	s, k := newSilentServer(t), newClock()
	s.foreign("a", []byte("old"))
	cfg := testConfig()
	cfg.Now = k.now
	c := newCache(t, s, cfg)
	lookup(t, c, "a")
	k.advance(2 * time.Hour)
	s.silence(nil)
	done := make(chan error, 1)
	go func() {
		e, err := c.Lookup(ctx, alice, c.Root(), "a")
		if err == nil {
			c.Forget(e.Inode, 1)
		}
		done <- err
	}()
	<-s.waits
	select {
	case err := <-done:
		t.Errorf("did not wait: %v", err)
	default:
	}
	s.talk()
	check(t, <-done)
}
