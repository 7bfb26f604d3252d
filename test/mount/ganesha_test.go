package mount

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/netns"
	"github.com/rdmafs/rdmafs/test/posix"
)

// ganeshaSource is set in the process that is nfs-ganesha's client.
const ganeshaSource = "RDMAFS_TEST_GANESHA"

// ganeshaHost runs its arguments as the only program of a machine: with a /run, an rpcbind
// and, as $1 names a directory for it, a statd of its own.
const ganeshaHost = `
set -e
state=$1; shift
mount -t tmpfs tmpfs /run
mkdir -p /run/ganesha
rpcbind -f -w &
until [ -S /run/rpcbind.sock ]; do sleep 0.05; done
# The server asks for statd once, when it starts.
if [ -n "$state" ]; then
	rpc.statd -F -P "$state" &
	until rpcinfo -T tcp 127.0.0.1 status >/dev/null 2>&1; do sleep 0.05; done
fi
exec "$@"
`

// ganeshaReady is what it logs when it serves.
const ganeshaReady = "NFS SERVER INITIALIZED"

// TestPosixOnGanesha runs the file system suite against nfs-ganesha, which serves a local
// directory by NFSv3 over TCP. Server and client are two networks, as the client's rpcbind
// must be another than the server's for locks to be granted.
func TestPosixOnGanesha(t *testing.T) {
	if source := os.Getenv(ganeshaSource); source != "" {
		posixOnGanesha(t, source)
		return
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	server, client := netns.Hosts(t, 1500)
	for _, p := range []string{"ganesha.nfsd", "rpcbind", "rpcinfo", "rpc.statd"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed (Debian: nfs-ganesha, nfs-ganesha-vfs, nfs-common, rpcbind)", p)
		}
	}
	source := startGanesha(t, server)
	cmd := inMachine(t, client, "", os.Args[0], "-test.run=^TestPosixOnGanesha$", "-test.v")
	cmd.Env = append(os.Environ(), ganeshaSource+"="+source, BinaryEnv+"="+Binary(t))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: TestPosixOnGanesha") {
		t.Errorf("the client: %v", err)
	}
}

// inMachine is a command that runs a program on a host, see ganeshaHost, with a process
// namespace that ends with it.
func inMachine(t *testing.T, h netns.Host, state string, line ...string) *exec.Cmd {
	args := append([]string{"--net=" + h.Path(), "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
		"--propagation", "private", "sh", "-c", ganeshaHost, "machine", state}, line...)
	return exec.CommandContext(t.Context(), "nsenter", args...)
}

// startGanesha runs the server until the test ends, and returns when it serves.
func startGanesha(t *testing.T, h netns.Host) (source string) {
	t.Helper()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	for _, d := range []string{"data", "statd/sm", "statd/sm.bak"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	conf := fmt.Sprintf(`NFS_CORE_PARAM { Protocols = 3; Enable_NLM = true; Enable_RQUOTA = false; Enable_UDP = false; }
NFS_KRB5 { Active_krb5 = false; }
NFSv4 { Graceless = true; RecoveryRoot = "%[1]s"; }
EXPORT {
	Export_Id = 1; Path = "%[2]s"; Pseudo = "/export"; Access_Type = RW; Protocols = 3; Transports = TCP; SecType = sys;
	Squash = No_Root_Squash;
	FSAL { Name = VFS; }
}
LOG { Default_Log_Level = EVENT; }
`, dir, data)
	file := filepath.Join(dir, "ganesha.conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := inMachine(t, h, filepath.Join(dir, "statd"), "ganesha.nfsd", "-F", "-f", file, "-L", "STDOUT", "-p", filepath.Join(dir, "pid"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready, ended := readGanesha(out)
	// The context of the test, which has ended by then, kills unshare, and that its child.
	t.Cleanup(func() {
		log := <-ended
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the server: %s%s", log, said.String())
		}
	})
	awaitGanesha(t, ready, ended)
	return h.IPv4.String() + ":" + data
}

// readGanesha reads what the server logs. ready is closed when it serves; ended gets all of it.
func readGanesha(out io.Reader) (ready chan struct{}, ended chan string) {
	ready, ended = make(chan struct{}), make(chan string, 1)
	runRead := func() {
		var log strings.Builder
		lines := bufio.NewReader(out)
		for open := ready; ; {
			line, err := lines.ReadString('\n')
			log.WriteString(line)
			if open != nil && strings.Contains(line, ganeshaReady) {
				close(open)
				open = nil
			}
			if err != nil {
				if err != io.EOF {
					fmt.Fprintln(&log, err)
				}
				ended <- log.String()
				return
			}
		}
	}
	go runRead()
	return ready, ended
}

// awaitGanesha returns when the server serves.
func awaitGanesha(t *testing.T, ready <-chan struct{}, ended chan string) {
	t.Helper()
	// A guard against hangs.
	const limit = time.Minute
	select {
	case <-ready:
	case log := <-ended:
		ended <- log
		t.Fatal("nfs-ganesha did not start")
	case <-time.After(limit):
		t.Fatalf("nfs-ganesha did not start in %v", limit)
	}
}

// notOnGanesha is what it cannot do, which linkTimes proves.
var notOnGanesha = map[string]string{
	"SetattrSymlink": "nfs-ganesha's FSAL VFS says NFS3_OK to a SETATTR of a symbolic link's times, and leaves them",
}

// linkTimes fails when the server does set the times of a symbolic link, or is not asked to.
func linkTimes(t *testing.T, m *Mounted) {
	link := filepath.Join(m.Dir, "link")
	if err := os.Symlink("target", link); err != nil {
		t.Fatal(err)
	}
	before := setattrs(t, m)
	want := unix.NsecToTimespec(43e9)
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, link, []unix.Timespec{want, want}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		t.Error(err)
	}
	if n := setattrs(t, m) - before; n != 1 {
		t.Errorf("%d SETATTRs, want 1", n)
	}
	var st unix.Stat_t
	if err := unix.Lstat(link, &st); err != nil {
		t.Error(err)
	} else if st.Mtim == want {
		t.Error("the server sets times of symbolic links: notOnGanesha is out of date")
	}
	if err := os.Remove(link); err != nil {
		t.Error(err)
	}
}

// setattrs is how many SETATTRs the server has answered with NFS3_OK.
func setattrs(t *testing.T, m *Mounted) uint64 {
	t.Helper()
	p := procedure(&reports(t, m)[0], "NFS", "SETATTR")
	return p.Calls - p.Errors
}

// posixOnGanesha is the client.
func posixOnGanesha(t *testing.T, source string) {
	for _, w := range []struct{ name, words string }{
		{"everyday", "allow_other"},
		{"nconnect", "nconnect=4"},
		{"small", "rsize=4096,wsize=8192"},
		{"noac", "noac"},
	} {
		t.Run(w.name, func(t *testing.T) {
			m := Mount(t, source, Options{Words: "proto=tcp," + w.words})
			posix.RunWithout(t, m.Dir, notOnGanesha)
			t.Run("times of a link", func(t *testing.T) { linkTimes(t, m) })
			if st := m.Stats(t); st.BadReplies > 0 || st.BadXIDs > 0 {
				t.Errorf("not a clean run: %+v", st)
			}
			if left, err := os.ReadDir(m.Dir); err != nil || len(left) > 0 {
				t.Errorf("left over: %v, %v", left, err)
			}
		})
	}
}
