package mount

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// TestUmountHeldElsewhere: where another mount namespace, or a bind mount, has a
// copy of the mount, umount returns with everything on the server and says who
// has it. The copy works on, and with its end the daemon ends.
func TestUmountHeldElsewhere(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes a mount namespace")
	}
	for _, who := range []struct {
		name            string
		wrapper, umount []string
	}{{"root", nil, nil}, {"user", nobody, nobody}, {"root for user", nobody, nil}} {
		t.Run(who.name, func(t *testing.T) {
			s := startServer(t, serverOptions{mode: 0o1777})
			m := Mount(t, s.source(), Options{Words: s.words("rdma", ""), Wrapper: who.wrapper, Dir: userDir(t)})
			_, exited := daemon(t, m)
			// The other namespace's process acts as the mount's user, whom alone
			// the mount admits.
			line := append([]string{"--mount", "--propagation=private"}, who.wrapper...)
			other := exec.Command("unshare", append(line, "sh", "-c", `echo there; read go; cat "$0/f" >&2 && echo later >"$0/g" && echo did; read end || :`, m.Dir)...)
			var read strings.Builder
			other.Stderr = &read
			words := startTalk(t, other)
			words.await("there")
			run(t, who.wrapper, "sh", "-c", `echo before >"$0/f"`, m.Dir)
			r := Command(t, who.umount, "umount", m.Dir)
			for _, want := range []string{m.Dir, "unmounted", "process " + strconv.Itoa(other.Process.Pid) + " (sh)"} {
				if r.Code != 0 || !strings.Contains(r.Stderr, want) {
					t.Errorf("exit code %d, said %q, want %q", r.Code, r.Stderr, want)
				}
			}
			if _, mounted, err := mounttable.Find(m.Dir); mounted || err != nil {
				t.Errorf("still mounted here (%v)", err)
			}
			words.say("go")
			words.await("did")
			words.end()
			if err := other.Wait(); err != nil || read.String() != "before\n" {
				t.Errorf("the other namespace: %v, read %q", err, read.String())
			}
			exited()
			for name, want := range map[string]string{"f": "before\n", "g": "later\n"} {
				if b, err := os.ReadFile(filepath.Join(s.export, name)); err != nil || string(b) != want {
					t.Errorf("%s on the server: %q, %v", name, b, err)
				}
			}
		})
	}
	t.Run("bind", func(t *testing.T) {
		s := startServer(t, serverOptions{})
		m := s.mount(t, "rdma", "")
		_, exited := daemon(t, m)
		copied := t.TempDir()
		run(t, nil, "mount", "--bind", m.Dir, copied)
		t.Cleanup(func() {
			if _, mounted, _ := mounttable.Find(copied); mounted {
				run(t, nil, "umount", copied)
			}
		})
		if r := Command(t, nil, "umount", m.Dir); r.Code != 0 || !strings.Contains(r.Stderr, "mounted on "+copied) {
			t.Errorf("exit code %d, said %q", r.Code, r.Stderr)
		}
		if err := os.WriteFile(filepath.Join(copied, "f"), []byte("x"), 0o644); err != nil {
			t.Error(err)
		}
		run(t, nil, "umount", copied)
		exited()
	})
}
