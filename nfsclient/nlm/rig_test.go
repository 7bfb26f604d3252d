package nlm

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/nfsclient/ranges"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/tcp"
)

// guard is for what must not hang.
const guard = 60 * time.Second

// rig is a server with a file, and what clients of it need.
type rig struct {
	t    *testing.T
	s    *nfsd.Server
	at   netip.AddrPort
	file nfsclient.Handle
	log  syncBuffer
}

func dialTCP(to netip.AddrPort) (transport.Dialer, error) { return tcp.NewDialer(tcp.Config{Addr: to}) }

func newRig(t *testing.T, f ...func(*nfsd.Config)) *rig {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("data"), 0o666); err != nil {
		t.Fatal(err)
	}
	cfg := nfsd.Config{Exports: []nfsd.Export{{Dir: dir, Path: "/export", Squash: nfsd.SquashNone}}}
	for _, g := range f {
		g(&cfg)
	}
	s, err := nfsd.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &rig{t: t, s: s}
	if r.at, err = s.ListenTCP("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	dial := func(_ context.Context, to netip.AddrPort) (transport.Caller, error) {
		d, err := dialTCP(to)
		if err != nil {
			return nil, err
		}
		return reconnect.New(d, reconnect.Config{Soft: true}), nil
	}
	caller, err := dial(t.Context(), r.at)
	if err != nil {
		t.Fatal(err)
	}
	m, err := nfs3.Mount(t.Context(), nfs3.Config{Host: "server", Addr: r.at.Addr(), Export: "/export", Caller: caller, Dial: dial, MountPort: r.at.Port()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(t.Context())
	root, _ := m.Root()
	found, err := m.Lookup(t.Context(), nfsclient.Cred{}, root, "file")
	if err != nil {
		t.Fatal(err)
	}
	r.file = found.Handle
	return r
}

// client is a client of the rig's server, closed with the test.
func (r *rig) client(f ...func(*Config)) *Client {
	r.t.Helper()
	c := r.open(f...)
	r.t.Cleanup(func() { r.close(c) })
	return c
}

// open is client without the closing.
func (r *rig) open(f ...func(*Config)) *Client {
	cf := Config{Host: "server", Addr: r.at.Addr(), Dialer: dialTCP, MachineName: "here", Timeo: time.Minute, Retrans: 2,
		Port: func(context.Context) (uint16, error) { return r.at.Port(), nil },
		Log:  slog.New(slog.NewTextHandler(&r.log, nil)), gracePause: 20 * time.Millisecond, lastPause: 50 * time.Millisecond}
	for _, g := range f {
		g(&cf)
	}
	return New(cf)
}

func (r *rig) close(c *Client) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), guard)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		r.t.Error("Close:", err)
	}
}

// set makes a lock of an owner, from first to last, without waiting.
func (r *rig) set(c *Client, owner nfsclient.LockOwner, typ nfsclient.LockType, first, last uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), guard)
	defer cancel()
	return c.SetLock(ctx, nfsclient.Cred{}, r.file, nil, owner, nfsclient.Lock{Type: typ, First: first, Last: last})
}

func (r *rig) wait(ctx context.Context, c *Client, owner nfsclient.LockOwner, typ nfsclient.LockType, first, last uint64) error {
	return c.WaitLock(ctx, nfsclient.Cred{}, r.file, nil, owner, nfsclient.Lock{Type: typ, First: first, Last: last})
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) denied(err error) {
	r.t.Helper()
	if !errors.Is(err, nfsclient.ErrLocked) {
		r.t.Errorf("%v, want %v", err, nfsclient.ErrLocked)
	}
}

// await waits until cond holds.
func (r *rig) await(what string, cond func() bool) {
	r.t.Helper()
	for end := time.Now().Add(guard); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%s: not so after %v\n%s", what, guard, r.log.String())
		}
	}
}

const whole = ranges.End

// syncBuffer is a log.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// watcher notes what is lost.
type watcher struct {
	mu   sync.Mutex
	lost []key
}

func (w *watcher) Recalled(context.Context, nfsclient.Handle) error { return nil }

func (w *watcher) Lost(h nfsclient.Handle, owner *nfsclient.LockOwner, _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = append(w.lost, key{h, *owner})
}

func (w *watcher) all() []key {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lost)
}

// kill ends a client as SIGKILL would, as far as its server and journal can tell.
func kill(t *testing.T, c *Client) {
	t.Helper()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.endWaits()
	c.endCalls()
	c.joined.Wait()
	c.journal.keep()
	if err := errors.Join(c.caller.Close(), c.journal.close()); err != nil {
		t.Fatal(err)
	}
}

func files(t *testing.T, dir string) int {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// lateLock has a server keep the answer to one LOCK back.
type lateLock struct {
	hold          atomic.Bool   // the next LOCK is the one
	arrived, stop chan struct{} // it was carried out; closed, its answer goes out
}

// answers configures the server.
func (l *lateLock) answers() func(*nfsd.Config) {
	l.arrived, l.stop = make(chan struct{}, 1), make(chan struct{})
	return func(cfg *nfsd.Config) {
		cfg.Faults = &nfsd.Faults{After: func(_ context.Context, e nfsd.Event) nfsd.Action {
			if e.Prog == wire.Program && e.Proc == wire.ProcLock && l.hold.CompareAndSwap(true, false) {
				l.arrived <- struct{}{}
				<-l.stop
			}
			return nfsd.Proceed
		}}
	}
}
