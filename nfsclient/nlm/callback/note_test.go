package callback

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	rpcbindwire "github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/test/rpcbindtest"
)

// What a process that was killed has registered is dropped by the next one, and nothing
// else is, whatever the note says.
func TestKilled(t *testing.T) {
	for name, c := range map[string]struct {
		// spoil changes what was left, and returns whether the next one may register.
		spoil func(b *rpcbindtest.Rpcbind, note string) error
		taken bool
	}{
		"as it was":     {func(*rpcbindtest.Rpcbind, string) error { return nil }, false},
		"another's now": {func(b *rpcbindtest.Rpcbind, _ string) error { b.Replace(wire.Program, "0.0.0.0.1.1"); return nil }, true},
		"an empty note": {func(_ *rpcbindtest.Rpcbind, note string) error { return os.Truncate(note, 0) }, true},
		"half a note":   {func(_ *rpcbindtest.Rpcbind, note string) error { return os.Truncate(note, 30) }, true},
		"nonsense":      {func(_ *rpcbindtest.Rpcbind, note string) error { return os.WriteFile(note, []byte(`{"a":[1]}`), 0o600) }, true},
		"another's note": {func(_ *rpcbindtest.Rpcbind, note string) error {
			return os.WriteFile(note, []byte(`[{"Program":100003}]`), 0o600)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := rpcbindtest.Start(t, "127.0.0.1:0")
			b.Add(100003, 3, "tcp", "0.0.0.0.8.1")
			cfg := Config{Server: netip.MustParseAddr("192.0.2.1"), Rpcbind: b.Addr, Handler: &handler{}, Note: filepath.Join(t.TempDir(), "callbacks")}
			dead, err := Listen(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Listen(t.Context(), cfg); !errors.Is(err, ErrTaken) {
				t.Errorf("while the first lives: %v", err)
			}
			dead.cancel()
			dead.joined.Wait()
			if err := dead.note.close(); err != nil {
				t.Fatal(err)
			}
			if err := c.spoil(b, cfg.Note); err != nil {
				t.Fatal(err)
			}
			next, err := Listen(t.Context(), cfg)
			if c.taken != errors.Is(err, ErrTaken) || !c.taken && err != nil {
				t.Fatalf("the next: %v", err)
			}
			if err == nil {
				if yes, err := next.Registered(t.Context()); !yes || err != nil || !next.Monitors() {
					t.Errorf("the next is not registered: %+v, %v", b.List(), err)
				}
				if err := next.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if !slices.ContainsFunc(b.List(), func(e rpcbindwire.Rpcb) bool { return e.Program == 100003 }) {
				t.Error("somebody else's registration is gone")
			}
		})
	}
}

// Without a directory for the note there is no serving.
func TestNoNote(t *testing.T) {
	b := rpcbindtest.Start(t, "127.0.0.1:0")
	cfg := Config{Server: netip.MustParseAddr("192.0.2.1"), Rpcbind: b.Addr, Handler: &handler{}, Note: "/nonexistent/callbacks"}
	if _, err := Listen(t.Context(), cfg); !errors.Is(err, os.ErrNotExist) || len(b.List()) != 0 {
		t.Errorf("%v, %+v", err, b.List())
	}
}
