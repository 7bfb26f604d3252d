package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// TestMountPointNames: mount points of any name are mounted, found by stats and
// umount, and leave no control socket behind.
func TestMountPointNames(t *testing.T) {
	s := startServer(t, serverOptions{mode: 0o1777})
	long := strings.Repeat(strings.Repeat("x", 200)+"/", 10)
	for _, w := range [][]string{nil, asUser(t)} {
		base := t.TempDir()
		if w != nil {
			base = userDir(t)
		}
		for _, name := range []string{"with space", "new\nline", "tab\tand\\back", "comma,equals=#", "Ünïcödé ☃", long, "-dash"} {
			dir := filepath.Join(base, name)
			if out, err := command(w, "mkdir", "-p", "--", dir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			m := Mount(t, s.source(), Options{Words: s.words("rdma", ""), Wrapper: w, Dir: dir})
			if e, ok, err := mounttable.Find(dir); !ok || err != nil || e.Source != s.source() {
				t.Errorf("%q: mount table: %+v, %v, %v", name, e, ok, err)
			}
			if m.Stats(t).Calls == 0 {
				t.Errorf("%q: no calls", name)
			}
			m.Umount(t)
			if _, ok, err := mounttable.Find(dir); ok || err != nil {
				t.Errorf("%q: still mounted (%v)", name, err)
			}
		}
		command(w, "sh", "-c", "rm -rf -- \"$0\"/*", base).Run()
	}
}

// TestControlSocket: only its user reaches it, and a directory for it whose name
// is too long for a socket is no obstacle.
func TestControlSocket(t *testing.T) {
	s := startServer(t, serverOptions{})
	w := asUser(t)
	dir, run := userDir(t), userDir(t)
	deep := filepath.Join(run, strings.Repeat("d", 100))
	if out, err := command(w, "mkdir", deep).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { os.RemoveAll(deep) })
	for _, runtimeDir := range []string{run, deep} {
		env := append(append([]string(nil), w...), "env", "XDG_RUNTIME_DIR="+runtimeDir)
		m := Mount(t, s.source(), Options{Words: s.words("rdma", ""), Wrapper: env, Dir: dir})
		if m.Stats(t).Calls == 0 {
			t.Error("no calls")
		}
		if sockets, err := filepath.Glob(filepath.Join(run, "rdmafs", "*.sock")); err == nil && runtimeDir == run {
			st, err := os.Stat(filepath.Join(run, "rdmafs"))
			if err != nil || st.Mode().Perm() != 0o700 || len(sockets) != 1 {
				t.Errorf("directory of sockets: %v, %v, %v", st.Mode(), sockets, err)
			}
		}
		m.Umount(t)
	}
	if left, err := os.ReadDir(filepath.Join(run, "rdmafs")); err != nil || len(left) > 0 {
		t.Errorf("sockets left behind: %v, %v", left, err)
	}
	os.RemoveAll(filepath.Join(run, "rdmafs"))
}

// TestOtherEnvironment: a mount is found by commands whose XDG_RUNTIME_DIR is
// another than that of the mount, if it has its socket in a usual place; if not,
// they say why not, and a umount that it may not have waited.
func TestOtherEnvironment(t *testing.T) {
	s := startServer(t, serverOptions{})
	w := asUser(t)
	dir, odd := userDir(t), userDir(t)
	with := append(append([]string(nil), w...), "env", "XDG_RUNTIME_DIR="+odd)
	without := append(append([]string(nil), w...), "env", "-u", "XDG_RUNTIME_DIR")
	if os.Geteuid() != 0 {
		if _, err := os.Stat(fmt.Sprintf("/run/user/%d", os.Geteuid())); err == nil {
			t.Skip("the socket would be in the user's own directory")
		}
	}
	words := s.words("rdma", "")
	Mount(t, s.source(), Options{Words: words, Wrapper: without, Dir: dir})
	_, exited := daemon(t, &Mounted{Dir: dir, wrapper: with})
	if r := Command(t, with, "umount", dir); r.Code != 0 || r.Stderr != "" {
		t.Errorf("umount: %d, %s", r.Code, r.Stderr)
	}
	exited()
	m := Mount(t, s.source(), Options{Words: words, Wrapper: with, Dir: dir})
	_, exited = daemon(t, m)
	checkFailure(t, Command(t, without, "status", dir), fail, "XDG_RUNTIME_DIR", s.source())
	if r := Command(t, without, "umount", dir); r.Code != 0 || !strings.Contains(r.Stderr, "may still be writing") {
		t.Errorf("umount: %d, %s", r.Code, r.Stderr)
	}
	exited()
	os.Remove(filepath.Join(odd, "rdmafs"))
}

// TestMountOnMount: the upper mount is used and unmounted first.
func TestMountOnMount(t *testing.T) {
	dir := t.TempDir()
	const mounts = 4
	for k := range mounts {
		s := startServer(t, serverOptions{})
		if err := os.WriteFile(filepath.Join(s.export, "who"), fmt.Append(nil, k), 0o644); err != nil {
			t.Fatal(err)
		}
		Mount(t, s.source(), Options{Words: s.words("rdma", ""), Dir: dir})
	}
	m := &Mounted{Dir: dir}
	for k := mounts - 1; k >= 0; k-- {
		if b, err := os.ReadFile(filepath.Join(dir, "who")); err != nil || string(b) != fmt.Sprint(k) {
			t.Errorf("%q, %v, want %d", b, err, k)
		}
		e, _, _ := mounttable.Find(dir)
		if r := Command(t, nil, "stats", dir); r.Code != 0 || !strings.Contains(r.Stdout, e.Source) {
			t.Errorf("stats of %s: %s%s", e.Source, r.Stdout, r.Stderr)
		}
		m.Umount(t)
	}
	checkFailure(t, Command(t, nil, "umount", dir), fail, "not mounted")
}

// TestRootReachesUsersDaemon: root's commands find the daemon of a user's mount,
// so that root's umount too can wait until everything written is safe.
func TestRootReachesUsersDaemon(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	s := startServer(t, serverOptions{mode: 0o1777})
	m := Mount(t, s.source(), Options{Words: s.words("rdma", ""), Wrapper: nobody, Dir: userDir(t)})
	_, exited := daemon(t, m)
	for _, command := range []string{"stats", "umount"} {
		if r := Command(t, nil, command, m.Dir); r.Code != 0 {
			t.Errorf("%s: %s", command, r.Stderr)
		}
	}
	exited()
}
