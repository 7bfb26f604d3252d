package mount

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/posix"
	"github.com/rdmafs/rdmafs/test/randomops"
)

// way4 is one way of a call.
type way4 struct {
	name, proto, words string
	server             serverOptions
	// always: not only make test-all has time for it.
	always bool
}

func (w *way4) need(t *testing.T) {
	t.Helper()
	if !w.always {
		needAll(t)
	}
}

// needAll skips a test that takes long, unless all are asked for.
func needAll(t *testing.T) {
	t.Helper()
	if os.Getenv(allEnv) == "" {
		t.Skipf("takes long: with %s=1, which make test-all sets", allEnv)
	}
}

// ways4 are the ways of a call on which version 4 of the own server is tested.
var ways4 = []way4{
	{name: "tcp-4.1", proto: "tcp", words: "vers=4.1", always: true},
	{name: "tcp-4.2", proto: "tcp", words: "vers=4.2"},
	{name: "iwarp-4.1", proto: "rdma", words: "vers=4.1"},
	{name: "iwarp-4.2", proto: "rdma", words: "vers=4.2"},
	{name: "tcp-delegations-4.2", proto: "tcp", words: "vers=4.2", server: serverOptions{delegations: true}},
	{name: "iwarp-delegations-4.2", proto: "rdma", words: "vers=4.2", server: serverOptions{delegations: true}, always: true},
	{name: "iwarp-inline1024-4.2", proto: "rdma", words: "vers=4.2,inline=1024"},
	{name: "iwarp-noddp-4.2", proto: "rdma", words: "vers=4.2,noddp"},
	{name: "iwarp-version2-4.2", proto: "rdma", words: "vers=4.2,rdmavers=2"},
	{name: "roce-4.2", proto: "rdma", words: "vers=4.2", server: serverOptions{roce: true}, always: true},
}

// TestPosix4 is TestPosix with version 4.
func TestPosix4(t *testing.T) {
	for _, w := range ways4 {
		t.Run(w.name, func(t *testing.T) {
			w.need(t)
			w.server.versions = nfsd.V41 | nfsd.V42
			s := startServer(t, w.server)
			m := s.mount(t, w.proto, w.words)
			if strings.Contains(w.words, "vers=4.2") {
				posix.Run42(t, m.Dir, nil)
			} else {
				posix.Run(t, m.Dir)
			}
			if st := m.Stats(t); st.BadReplies > 0 || st.BadXIDs > 0 || st.Connects != 1 {
				t.Errorf("not a clean run: %+v", st)
			}
			if left, err := os.ReadDir(m.Dir); err != nil || len(left) > 0 {
				t.Errorf("left over: %v, %v", left, err)
			}
		})
	}
}

// TestRandomOps4 is TestRandomOps with version 4.
func TestRandomOps4(t *testing.T) {
	if RandomOpsInside(t) {
		return
	}
	for _, w := range ways4[:7] {
		t.Run(w.name, func(t *testing.T) {
			w.need(t)
			w.server.versions = nfsd.V3 | nfsd.V41 | nfsd.V42
			s := startServer(t, w.server)
			m := s.mount(t, w.proto, w.words)
			local := RandomOps(t, m.Dir, RandomOpsOptions{Few: 4000, All: 200_000, Test: "TestRandomOps4"})
			m.Umount(t)
			for _, dir := range []string{s.export, s.mount(t, w.proto, w.words).Dir, s.mount(t, "tcp", "").Dir} {
				if err := randomops.Same(dir, local); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestTree4 copies a tree in, compares it on the server and through another mount, and has git work in it.
func TestTree4(t *testing.T) {
	for _, vers := range []string{"vers=4.1", "vers=4.2"} {
		t.Run(vers, func(t *testing.T) {
			if vers != "vers=4.2" {
				needAll(t)
			}
			s := startServer(t, serverOptions{versions: nfsd.V41 | nfsd.V42})
			m, _ := s.copyTree(t, vers)
			git := func(args ...string) string {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "safe.directory=*"}, args...)...)
				cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "GIT_CONFIG_NOSYSTEM=1")
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("git %q: %v\n%s", args, err, out)
				}
				return string(out)
			}
			if _, err := exec.LookPath("git"); err != nil {
				t.Skip("git is not installed")
			}
			tree, clone := filepath.Join(m.Dir, "tree"), filepath.Join(m.Dir, "clone")
			git("-C", tree, "init", "-q")
			git("-C", tree, "add", "-A")
			git("-C", tree, "commit", "-q", "-m", "all")
			git("clone", "-q", "--no-hardlinks", tree, clone)
			git("-C", clone, "gc", "-q")
			git("-C", clone, "fsck", "--strict")
			if out := git("-C", clone, "status", "--porcelain"); out != "" {
				t.Errorf("a new clone has changes:\n%s", out)
			}
			m.Umount(t)
			git("-C", filepath.Join(s.export, "clone"), "fsck", "--strict")
		})
	}
}
