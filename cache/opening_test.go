package cache

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// stateful is a server that opens files: READ, WRITE and truncation must carry
// the state of an opening of that file that is not closed. With an opening it says what
// GETATTR and ACCESS would, but for what it is silent of, and refuses none, as a server
// does to a file's owner.
type stateful struct {
	*fake
	noAttr, noRights bool

	mu     sync.Mutex
	states map[*serverOpen]bool // open or closed
	closed chan *serverOpen
}

type serverOpen struct {
	h    nfsclient.Handle
	mode nfsclient.OpenMode
}

func newStateful(t testing.TB) *stateful {
	return &stateful{fake: newFake(t), states: map[*serverOpen]bool{}, closed: make(chan *serverOpen, 1000)}
}

func (s *stateful) open(h nfsclient.Handle, mode nfsclient.OpenMode) nfsclient.OpenState {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &serverOpen{h, mode}
	s.states[o] = true
	return o
}

func (s *stateful) OpenFile(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, mode nfsclient.OpenMode) (r nfsclient.Opened, err error) {
	var st nfsclient.OpenState
	err = s.run(ctx, "OPEN", func() error {
		n, err := s.node("OPEN", h)
		if err != nil {
			return err
		}
		st = s.open(h, mode)
		if !s.noAttr {
			r.Attr = n.post()
		}
		if !s.noRights {
			r.Asked, r.Granted = nfsclient.FileRights, nfsclient.FileRights&^n.denied[cr.UID]
		}
		return nil
	})
	if err != nil {
		return nfsclient.Opened{}, err
	}
	r.State = st
	return r, nil
}

func (s *stateful) CloseFile(_ context.Context, _ nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState) error {
	s.use("CLOSE", h, st, 0)
	s.mu.Lock()
	s.states[st.(*serverOpen)] = false
	s.mu.Unlock()
	s.closed <- st.(*serverOpen)
	return nil
}

func (s *stateful) use(op string, h nfsclient.Handle, st nfsclient.OpenState, mode nfsclient.OpenMode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, _ := st.(*serverOpen)
	switch {
	case o == nil:
		s.t.Errorf("%s without a state", op)
	case !s.states[o]:
		s.t.Errorf("%s with a state that is closed", op)
	case o.h != h || o.mode&mode != mode:
		s.t.Errorf("%s of %s for %d with the state of %s for %d", op, h, mode, o.h, o.mode)
	}
}

func (s *stateful) left() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, open := range s.states {
		if open {
			n++
		}
	}
	return n
}

func (s *stateful) Create(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string, a nfsclient.SetAttr, exclusive bool, mode nfsclient.OpenMode) (nfsclient.Made, error) {
	m, err := s.fake.Create(ctx, cr, dir, name, a, exclusive, mode)
	if err == nil {
		m.State = s.open(m.Handle, mode)
	}
	return m, err
}

func (s *stateful) Read(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, off uint64, to mem.Vec) (nfsclient.ReadResult, error) {
	s.use("READ", h, st, nfsclient.OpenRead)
	defer s.use("READ that has ended", h, st, 0)
	return s.fake.Read(ctx, cr, h, st, off, to)
}

func (s *stateful) Write(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, off uint64, from mem.Vec, how nfsclient.Stable) (nfsclient.WriteResult, error) {
	s.use("WRITE", h, st, nfsclient.OpenWrite)
	defer s.use("WRITE that has ended", h, st, 0)
	return s.fake.Write(ctx, cr, h, st, off, from, how)
}

func (s *stateful) SetAttr(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, a nfsclient.SetAttr) (nfsclient.Wcc, error) {
	if a.Size != nil {
		s.use("SETATTR", h, st, nfsclient.OpenWrite)
		defer s.use("SETATTR that has ended", h, st, 0)
	}
	return s.fake.SetAttr(ctx, cr, h, st, a)
}

// eachProtocol runs f with a server that does not open files, and with one that does.
func eachProtocol(t *testing.T, f func(t *testing.T, cl nfsclient.Client, srv *fake)) {
	t.Run("stateless", func(t *testing.T) {
		srv := newFake(t)
		f(t, srv, srv)
	})
	t.Run("stateful", func(t *testing.T) {
		srv := newStateful(t)
		f(t, srv, srv.fake)
	})
}

// TestOpenStateOutlivesTheLastWrite closes a file whose data is not written yet:
// the server is told only when it is.
func TestOpenStateOutlivesTheLastWrite(t *testing.T) {
	srv := newStateful(t)
	begun, proceed := make(chan struct{}), make(chan struct{})
	srv.hook = func(op string, done bool) error {
		if op == "WRITE" && !done {
			close(begun)
			<-proceed
		}
		return nil
	}
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	i := f.Inode()
	i.refs.Add(1)
	defer i.unpin()
	write(t, f, []byte("data"), 0)
	f.Release()
	if f.open.refs.Load() == 0 {
		t.Error("the state was given back though nothing is written")
	}
	flushed := make(chan error, 1)
	go func() { flushed <- i.sync(ctx) }()
	<-begun
	if f.open.refs.Load() == 0 {
		t.Error("the state was given back during the WRITE")
	}
	close(proceed)
	check(t, <-flushed)
	<-srv.closed
	if srv.left() != 0 {
		t.Error("the state was not given back")
	}
}

// TestEveryOpenStateIsGivenBack goes through all ways to open, use and close a
// file: all calls carry a state, and none is left.
func TestEveryOpenStateIsGivenBack(t *testing.T) {
	srv := newStateful(t)
	c := newCache(t, srv, testConfig())
	f := create(t, c, "a")
	i := f.Inode()
	write(t, f, pattern(300<<10, 1), 0)
	write(t, f, pattern(100, 2), 300<<10) // extended in place
	write(t, f, pattern(100<<10, 3), 100<<10)
	size := uint64(200 << 10)
	_, _, err := f.SetAttr(ctx, alice, nfsclient.SetAttr{Size: &size})
	check(t, err)
	check(t, f.Fsync(ctx))
	f.Release()

	f, _ = open(t, c, "a", rw)
	read(t, f, 128<<10, 0) // and ahead
	read(t, f, 32<<10, 128<<10)
	f.Release()

	f, _ = open(t, c, "a", OpenMode{Read: true, Write: true, Direct: true})
	write(t, f, pattern(100<<10, 4), 0)
	read(t, f, 100<<10, 0)
	f.Release()

	f, _ = open(t, c, "a", OpenMode{Write: true, Truncate: true})
	write(t, f, []byte("x"), 0)
	f.Release()

	f, _ = open(t, c, "a", OpenMode{Execute: true, Read: true})
	f.Release()
	check(t, i.sync(ctx))

	e, err := c.Mknod(ctx, alice, c.Root(), "b", nfsclient.Regular, nfsclient.Device{}, nfsclient.SetAttr{})
	check(t, err)
	c.Forget(e.Inode, 1)

	srv.mu.Lock()
	all := len(srv.states)
	srv.mu.Unlock()
	for range all {
		<-srv.closed
	}
	if all != 6 || srv.left() != 0 {
		t.Errorf("%d openings, %d left", all, srv.left())
	}
}

// TestFailedOpenGivesItsStateBack has an opening fail after the server has
// opened the file.
func TestFailedOpenGivesItsStateBack(t *testing.T) {
	srv := newStateful(t)
	srv.foreign("a", []byte("old"))
	c := newCache(t, srv, testConfig())
	srv.hook = func(op string, done bool) error {
		if op == "SETATTR" && !done {
			return fail(op, nfsclient.ErrNoSpace)
		}
		return nil
	}
	e := lookup(t, c, "a")
	f, _, err := c.Open(ctx, alice, e.Inode, OpenMode{Write: true, Truncate: true})
	if s, _ := nfsclient.StatusOf(err); f != nil || s != nfsclient.ErrNoSpace {
		t.Fatal(fmt.Errorf("opened: %v", err))
	}
	<-srv.closed
}

// TestOpeningCostsNothing: a protocol that does not open files pays nothing.
func TestOpeningCostsNothing(t *testing.T) {
	c := newCache(t, newFake(t), testConfig())
	if n := testing.AllocsPerRun(100, func() {
		o, _, err := c.openServer(ctx, alice, c.Root(), rw)
		o.hold().release()
		o.release()
		if err != nil || o.server() != nil {
			t.Error("a state of nothing")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
