package mount

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/netns"
	"github.com/rdmafs/rdmafs/test/posix"
	"github.com/rdmafs/rdmafs/test/randomops"
)

// version4Dir names, in the process that is the client of an NFSv4 server, what that has
// for itself.
const version4Dir = "RDMAFS_TEST_VERSION4"

// version4Host runs its arguments as the only program of a machine.
const version4Host = `mount -t tmpfs tmpfs /run && mkdir -p /run/ganesha && exec "$@"`

// TestVersion4 mounts nfs-ganesha with NFSv4.1 and 4.2, over TCP. The server is on the client's host:
// version 4 needs no other service of either.
func TestVersion4(t *testing.T) {
	if RandomOpsInside(t) {
		return
	}
	inVersion4(t, version4)
}

// inVersion4 runs client in a process of its own, on a machine where a server can be started.
func inVersion4(t *testing.T, client func(t *testing.T, dir string)) {
	inVersion4On(t, version4Host, client)
}

// inVersion4On is inVersion4 on a machine that a script makes, of the form of version4Host.
func inVersion4On(t *testing.T, script string, client func(t *testing.T, dir string)) {
	if dir := os.Getenv(version4Dir); dir != "" {
		client(t, dir)
		return
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	host, _ := netns.Hosts(t, 1500)
	if _, err := exec.LookPath("ganesha.nfsd"); err != nil {
		t.Skip("ganesha.nfsd is not installed (Debian: nfs-ganesha, nfs-ganesha-vfs)")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "nsenter", "--net="+host.Path(), "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
		"--propagation", "private", "sh", "-c", script, "machine", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), version4Dir+"="+dir, BinaryEnv+"="+Binary(t))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err == nil && strings.Contains(string(out), "--- SKIP: "+t.Name()+" ") {
		t.Skip("the client was skipped, for the reason above")
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") {
		t.Errorf("the client: %v", err)
	}
}

// secondExport is a directory that the server exports by the name /export/second, in another file system than data.
const secondExport = "/run/second"

// server4 is nfs-ganesha. It exports data by the name /export/data, beneath a directory of its
// pseudo file system.
type server4 struct {
	dir, data string
	// orders starts the server, by a shell that was there before anything was mounted: a process that this
	// one starts while the server is away would wait for it, to close its copies of open files.
	orders io.WriteCloser
	shell  *exec.Cmd
	pid    chan int
	ready  chan struct{}
	gone   chan struct{} // the server has ended
	log    chan string   // all that it has said, when the shell has ended
	runs   int           // its process, 0 without one
}

// supervise starts a program for each line of its input, and says what becomes of it.
const supervise = `while read -r order; do "$@" & echo "process $!"; wait $!; echo "process ended"; done`

// lease is how long state is kept for a client that is silent, and how long a server that has
// restarted grants nothing but what is reclaimed, in seconds. It is long, so that a slow machine loses nothing
// by it; the server ends that time as soon as all of its clients have reclaimed.
const lease = 40

func newServer4(t *testing.T, dir string, lease int) *server4 {
	t.Helper()
	return newServer4Secured(t, dir, lease, "Active_krb5 = false;", "sys", nil)
}

// newServer4Secured is newServer4 with Kerberos as the block NFS_KRB5 has it, an export by these
// flavors, and an environment, if that is not this process's.
func newServer4Secured(t *testing.T, dir string, lease int, krb5, flavors string, env []string) *server4 {
	t.Helper()
	s := &server4{dir: dir, data: filepath.Join(dir, "data"), pid: make(chan int, 1), ready: make(chan struct{}, 1),
		gone: make(chan struct{}, 1), log: make(chan string, 1)}
	for _, d := range []string{s.data, filepath.Join(dir, "recovery"), secondExport} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	conf := fmt.Sprintf(`NFS_CORE_PARAM { Protocols = 4; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }
NFS_KRB5 { %[4]s }
NFSv4 {
	RecoveryBackend = fs; RecoveryRoot = "%[1]s/recovery"; Minor_Versions = 1, 2; Lease_Lifetime = %[3]d; Grace_Period = %[3]d;
	Only_Numeric_Owners = true; Allow_Numeric_Owners = true;
}
EXPORT {
	Export_Id = 1; Path = "%[2]s"; Pseudo = "/export/data"; Access_Type = RW; Protocols = 4; Transports = TCP; SecType = %[5]s;
	Squash = No_Root_Squash;
	FSAL { Name = VFS; }
}
EXPORT {
	Export_Id = 2; Path = "%[6]s"; Pseudo = "/export/second"; Access_Type = RW; Protocols = 4; Transports = TCP; SecType = sys;
	Squash = No_Root_Squash;
	FSAL { Name = VFS; }
}
LOG { Default_Log_Level = EVENT; }
`, dir, s.data, lease, krb5, flavors, secondExport)
	if err := os.WriteFile(filepath.Join(dir, "ganesha.conf"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	s.shell = exec.Command("sh", "-c", supervise, "supervisor", "ganesha.nfsd", "-F", "-f", dir+"/ganesha.conf", "-L", "STDOUT", "-p", dir+"/pid")
	s.shell.Env = env
	var out io.Reader
	var err error
	if s.orders, err = s.shell.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if out, err = s.shell.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.shell.Start(); err != nil {
		t.Fatal(err)
	}
	go s.runRead(out)
	t.Cleanup(func() {
		s.kill(t)
		_ = s.orders.Close()
		log := <-s.log
		if err := s.shell.Wait(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the server: %s", log)
		}
	})
	s.start(t)
	return s
}

// runRead reads what the shell and the server say.
func (s *server4) runRead(out io.Reader) {
	var log strings.Builder
	defer func() { s.log <- log.String() }()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := lines.Text()
		fmt.Fprintln(&log, line)
		var pid int
		switch {
		case line == "process ended":
			s.gone <- struct{}{}
		case strings.Contains(line, ganeshaReady):
			s.ready <- struct{}{}
		default:
			if _, err := fmt.Sscanf(line, "process %d", &pid); err == nil {
				s.pid <- pid
			}
		}
	}
}

// start returns when the server serves.
func (s *server4) start(t *testing.T) {
	t.Helper()
	if _, err := s.orders.Write([]byte("start\n")); err != nil {
		t.Fatal(err)
	}
	s.runs = <-s.pid
	select {
	case <-s.ready:
	case <-s.gone:
		s.runs = 0
		t.Fatal("nfs-ganesha did not start")
	case <-time.After(time.Minute): // a guard against hangs
		t.Fatal("nfs-ganesha does not serve after a minute")
	}
}

// kill ends the server as a crash does: what it had not written is lost, its clients are not told.
func (s *server4) kill(t *testing.T) {
	t.Helper()
	if s.runs == 0 {
		return
	}
	if err := syscall.Kill(s.runs, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	<-s.gone
	s.runs = 0
}

// lacksXattrs is why what needs extended attributes is left out.
const lacksXattrs = "nfs-ganesha's FSAL VFS has no extended attributes"

// version4 is the client.
func version4(t *testing.T, dir string) {
	s := newServer4(t, dir, lease)
	mount := func(t *testing.T, words string) *Mounted {
		return Mount(t, "127.0.0.1:/export/data", Options{Words: "proto=tcp," + words})
	}
	for _, vers := range []string{"4.1", "4.2"} {
		t.Run(vers, func(t *testing.T) {
			t.Run("random", func(t *testing.T) {
				m := mount(t, "vers="+vers)
				local := RandomOps(t, m.Dir, RandomOpsOptions{Few: 4000, All: 100_000, Test: "TestVersion4"})
				m.Umount(t)
				for _, dir := range []string{s.data, mount(t, "vers="+vers).Dir} {
					if err := randomops.Same(dir, local); err != nil {
						t.Error(err)
					}
				}
				emptied(t, s.data)
			})
			t.Run("posix", func(t *testing.T) {
				m := mount(t, "vers="+vers+",allow_other")
				if vers == "4.2" {
					lacks := maps.Clone(notOnGanesha)
					lacks["XAttr"], lacks["XAttrLarge"] = lacksXattrs, lacksXattrs
					posix.Run42(t, m.Dir, lacks)
				} else {
					posix.RunWithout(t, m.Dir, notOnGanesha)
				}
				if left, err := os.ReadDir(m.Dir); err != nil || len(left) > 0 {
					t.Errorf("left over: %v, %v", left, err)
				}
			})
			t.Run("crashes", func(t *testing.T) { crashes4(t, s, mount(t, "vers="+vers)) })
		})
	}
	t.Run("highest", func(t *testing.T) {
		m := mount(t, "vers=4")
		if v := reports(t, m)[0].Version; v != "4.2" {
			t.Errorf("vers=4 is version %s, and the server has 4.2", v)
		}
	})
}

// emptied removes what is in a directory.
func emptied(t *testing.T, dir string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			t.Error(err)
		}
	}
}

// crashes4 kills the server again and again under writers that hold locks. Each keeps its lock, and
// what it has written is there at the end.
func crashes4(t *testing.T, s *server4, m *Mounted) {
	const writers, rounds, size = 3, 3, 1 << 20
	var acknowledged [writers]atomic.Int64
	var stop atomic.Bool
	var all sync.WaitGroup
	for n := range writers {
		all.Go(func() {
			name := fmt.Sprint("writer", n)
			if err := write4(filepath.Join(m.Dir, name), uint64(n), size, &stop, &acknowledged[n], filepath.Join(s.data, name)); err != nil {
				t.Errorf("%s: %v", name, err)
				stop.Store(true)
			}
		})
	}
	for range rounds {
		// Every writer has got on since the last crash.
		var marks [writers]int64
		for n := range marks {
			marks[n] = acknowledged[n].Load()
		}
		for n := range marks {
			awaitThat(t, "a writer's progress", func() bool { return stop.Load() || acknowledged[n].Load() > marks[n] })
		}
		s.kill(t)
		s.start(t)
	}
	stop.Store(true)
	all.Wait()
	emptied(t, s.data)
}

// write4 writes to a file that it has locked, and syncs it, until it is told to stop; the server's file is
// then what was written.
func write4(path string, seed uint64, size int, stop *atomic.Bool, acknowledged *atomic.Int64, atServer string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	whole := unix.Flock_t{Type: unix.F_WRLCK}
	for err = syscall.EINTR; err == syscall.EINTR; {
		err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLKW, &whole)
	}
	if err != nil {
		return fmt.Errorf("locking: %w", err)
	}
	r := rand.New(rand.NewPCG(4, seed))
	want := make([]byte, size)
	for last := false; !last; {
		last = stop.Load()
		for range 8 {
			off := r.IntN(size)
			b := want[off:min(size, off+1+r.IntN(100_000))]
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			if _, err := f.WriteAt(b, int64(off)); err != nil {
				return err
			}
		}
		if err := f.Sync(); err != nil {
			return err
		}
		acknowledged.Add(1)
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	got, err := os.ReadFile(atServer)
	if err != nil {
		return err
	}
	if int64(len(got)) != st.Size() || !bytes.Equal(got, want[:len(got)]) {
		return fmt.Errorf("the server's file of %d bytes is not what was written, %d bytes", len(got), st.Size())
	}
	return nil
}
