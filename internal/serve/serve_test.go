package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/internal/control"
	"github.com/rdmafs/rdmafs/internal/mount"
	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/session"
	"github.com/rdmafs/rdmafs/internal/source"
	"github.com/rdmafs/rdmafs/internal/status"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/testlog"
)

// rig is an export of an embedded server, and where to mount it.
type rig struct {
	export string
	cfg    Config
	busy   chan error
}

func newRig(t *testing.T) *rig {
	o := options.Default()
	if err := mount.Check(&o); err != nil {
		t.Skip(err)
	}
	r := &rig{export: t.TempDir(), busy: make(chan error, 1)}
	s, err := nfsd.New(nfsd.Config{Exports: []nfsd.Export{{Dir: r.export, Squash: nfsd.SquashNone}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	var at netip.AddrPort
	if at, err = s.ListenTCP("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if o, err = options.Parse([]string{fmt.Sprintf("proto=tcp,port=%d,mountport=%d,nlmport=%d", at.Port(), at.Port(), at.Port())}); err != nil {
		t.Fatal(err)
	}
	src, err := source.Parse("127.0.0.1:" + r.export)
	if err != nil {
		t.Fatal(err)
	}
	r.cfg = Config{
		Config: session.Config{Source: src, Options: o, Log: testlog.New(t)},
		Dir:    t.TempDir(),
		Busy:   func(err error) { r.busy <- err },
	}
	return r
}

// start starts a mount, and serves it until ctx ends or somebody unmounts it.
func (r *rig) start(t *testing.T, ctx context.Context) (*Mount, <-chan error) {
	t.Helper()
	m, err := Start(context.Background(), r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- m.Serve(ctx) }()
	return m, ended
}

// user is another process with a file of the mount open for writing.
type user struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// holding starts a user. This process must have nothing of the mount open.
func (r *rig) holding(t *testing.T) *user {
	t.Helper()
	cmd := exec.Command("sh", "-c", `exec 3>"$0"; echo data >&3; echo open; read end`, filepath.Join(r.cfg.Dir, "file"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	u := &user{cmd, in}
	t.Cleanup(u.close)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "open\n" {
		t.Fatalf("the user of the mount says %q, %v", line, err)
	}
	return u
}

func (u *user) close() {
	u.stdin.Close()
	_ = u.cmd.Wait()
}

// over checks that nothing of an ended mount is left.
func (r *rig) over(t *testing.T, m *Mount) {
	t.Helper()
	<-m.Done()
	if _, mounted, err := mounttable.Find(r.cfg.Dir); mounted || err != nil {
		t.Errorf("mounted: %v, %v", mounted, err)
	}
	if _, err := control.Stats(r.cfg.Dir); !errors.Is(err, control.ErrNoDaemon) {
		t.Errorf("the control socket of an ended mount: %v", err)
	}
}

// written checks what the server has of the user's file.
func (r *rig) written(t *testing.T) {
	t.Helper()
	if b, err := os.ReadFile(filepath.Join(r.export, "file")); string(b) != "data\n" || err != nil {
		t.Errorf("the server has %q, %v", b, err)
	}
}

// TestServe: the mount answers on its control socket; while a file is open the end
// of the context does not unmount it, but what has it open is told of; an umount
// afterwards ends it, with everything written.
func TestServe(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	m, ended := r.start(t, ctx)
	b, err := control.Stats(r.cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var said status.Report
	if err := json.Unmarshal(b, &said); err != nil || said.MountPoint != r.cfg.Dir || said.PID != os.Getpid() || said.Transport != "tcp" {
		t.Errorf("status: %+v, %v", said.InForce, err)
	}
	u := r.holding(t)
	cancel()
	if err := <-r.busy; !strings.Contains(err.Error(), "busy") {
		t.Error(err)
	}
	u.close()
	if err := mount.Detach(r.cfg.Dir, false); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	r.over(t, m)
	r.written(t)
}

// TestEndByContext: the end of the context unmounts, and the data is safe; a
// program may then mount there again.
func TestEndByContext(t *testing.T) {
	r := newRig(t)
	for range 2 {
		ctx, cancel := context.WithCancel(context.Background())
		m, ended := r.start(t, ctx)
		r.holding(t).close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		r.over(t, m)
		r.written(t)
	}
}

// TestEndDetached: of a mount that was detached, the end of the context waits for what
// was written, and not for those who have files open. They are still served.
func TestEndDetached(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	m, ended := r.start(t, ctx)
	u := r.holding(t)
	if err := m.Detach(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	r.written(t)
	select {
	case <-m.Done():
		t.Error("ended under an open file")
	default:
	}
	u.close()
	r.over(t, m)
}

// TestForcedEnd: a client of the control socket has the mount end by force, under
// an open file, and is told that data may be lost.
func TestForcedEnd(t *testing.T) {
	r := newRig(t)
	m, ended := r.start(t, context.Background())
	u := r.holding(t)
	w, err := control.Wait(r.cfg.Dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := control.Abort(r.cfg.Dir); err != nil {
		t.Fatal(err)
	}
	if err := m.Detach(); err != nil {
		t.Fatal(err)
	}
	m.force.cancel() // the grace is over
	if err := <-ended; !errors.Is(err, errForced) {
		t.Errorf("ended with %v", err)
	}
	if said, err := w.End(); said != errForced.Error() || err != nil {
		t.Errorf("the client was told %q, %v", said, err)
	}
	u.close()
	r.over(t, m)
}

// TestStartFails: what cannot be mounted leaves nothing behind.
func TestStartFails(t *testing.T) {
	r := newRig(t)
	dir := r.cfg.Dir
	r.cfg.Dir = filepath.Join(dir, "none")
	if _, err := Start(context.Background(), r.cfg); err == nil {
		t.Error("mounted on a directory that does not exist")
	}
	if _, err := control.Stats(r.cfg.Dir); !errors.Is(err, control.ErrNoDaemon) {
		t.Errorf("a control socket is left: %v", err)
	}
	r.cfg.Dir, r.cfg.Source.Export = dir, "/not/exported"
	if _, err := Start(context.Background(), r.cfg); err == nil {
		t.Error("mounted what is not exported")
	}
}
