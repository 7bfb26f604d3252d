package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/fs"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/test/rpcbindtest"
)

// openFor opens a session as a mount does, with more options.
func openFor(t *testing.T, cfg Config, more ...string) *Session {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	o, err := options.Parse(more)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Options.NLMPort, cfg.Options.NoLock, cfg.Options.LocalLock = o.NLMPort, o.NoLock, o.LocalLock
	s, err := Open(context.Background(), cfg, fs.NewKernel())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func lock(s *Session) error {
	root, _ := s.Client().Root()
	ctx := context.Background()
	made, err := s.Client().Create(ctx, OwnCred(), root, fmt.Sprint("f", rand.Uint64()), nfsclient.SetAttr{}, false, nfsclient.OpenWrite)
	if err != nil {
		return err
	}
	return s.Client().(nfsclient.Locker).SetLock(ctx, OwnCred(), made.Handle, nil, 1, nfsclient.Lock{Type: nfsclient.WriteLock, Last: 9})
}

// A lock reaches the server by the port that rpcbind tells, and Close gives it back;
// without rpcbind the session says so, and works otherwise.
func TestLocks(t *testing.T) {
	server, cfg, _ := serving(t)
	ln, err := net.Listen("tcp", "127.0.0.1:111")
	if err != nil {
		t.Skip("port 111 cannot be had:", err)
	}
	ln.Close()
	s := openFor(t, cfg)
	if note := s.LockNote(); !strings.Contains(note, "rpcbind") || !strings.Contains(note, "nolock") {
		t.Errorf("without rpcbind the note is %q", note)
	}
	if err := lock(s); !strings.Contains(err.Error(), "rpcbind") {
		t.Errorf("%v", err)
	}
	closeSession(t, s)

	b := rpcbindtest.Start(t, "127.0.0.1:111")
	s = openFor(t, cfg)
	if note := s.LockNote(); !strings.Contains(note, "no lock manager") {
		t.Errorf("without NLM the note is %q", note)
	}
	closeSession(t, s)
	if err := server.Register(t.Context(), b.Addr); err != nil {
		t.Fatal(err)
	}
	s = openFor(t, cfg)
	if note := s.LockNote(); note != "" {
		t.Errorf("the note is %q", note)
	}
	if n := server.Stats().Locks; len(n) != 0 {
		t.Errorf("calls of NLM without a lock: %v", n)
	}
	if err := lock(s); err != nil {
		t.Error(err)
	}
	if n := server.Locks(); n != 1 {
		t.Errorf("%d locks", n)
	}
	if how := s.LockWait(); how != "polling" { // the server has called nobody back
		t.Errorf("waits by %q", how)
	}
	closeSession(t, s)
	if n := server.Locks(); n != 0 {
		t.Errorf("%d locks left", n)
	}
}

// With nolock nobody is asked, and there are no locks at the server.
func TestNoLock(t *testing.T) {
	_, cfg, _ := serving(t)
	for _, words := range []string{"nolock", "local_lock=all"} {
		s := openFor(t, cfg, words)
		if note := s.LockNote(); note != "" {
			t.Errorf("%s: the note is %q", words, note)
		}
		if how := s.LockWait(); how != "" {
			t.Errorf("%s: waits by %q", words, how)
		}
		if err := lock(s); !errors.Is(err, nfsclient.ErrNotSupported) {
			t.Errorf("%s: %v", words, err)
		}
		closeSession(t, s)
	}
}

func closeSession(t *testing.T, s *Session) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
