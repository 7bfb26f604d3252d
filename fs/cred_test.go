package fs

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/testlog"
)

// sleeper starts a process of an ordinary user with supplementary groups, and
// returns it as a caller.
func sleeper(t testing.TB, groups ...uint32) (*exec.Cmd, *fuse.InHeader) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, Groups: groups}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, &fuse.InHeader{Caller: fuse.Caller{Pid: uint32(cmd.Process.Pid), Owner: fuse.Owner{Uid: 65534, Gid: 65534}}}
}

func end(cmd *exec.Cmd) {
	cmd.Process.Kill()
	cmd.Wait()
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it acts as other users")
	}
}

// inPIDNamespace runs the test that calls it once more, in pid and mount
// namespaces of its own. It is true there.
func inPIDNamespace(t *testing.T) bool {
	t.Helper()
	needRoot(t)
	const inside = "RDMAFS_TEST_PID_NAMESPACE"
	if os.Getenv(inside) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return false
}

// TestOtherProc: where /proc is that of another pid namespace, nobody is given
// the groups of the one who has his number there.
func TestOtherProc(t *testing.T) {
	if !inPIDNamespace(t) {
		return
	}
	said := 0
	c := creds{log: testlog.To(func(string) { said++ })}
	cmd, caller := sleeper(t, 4711)
	defer end(cmd)
	if _, err := os.Stat("/proc/1/status"); err != nil {
		t.Fatal(err) // somebody has our number there
	}
	for _, h := range []*fuse.InHeader{caller, {Caller: fuse.Caller{Pid: uint32(os.Getpid())}}} {
		if got := c.of(h).GIDs; got != nil {
			t.Errorf("groups %v", got)
		}
		if v := checkThread(h.Pid); v != unseen {
			t.Errorf("verdict %d about a process that cannot be seen", v)
		}
	}
	if said != 1 {
		t.Errorf("said it %d times", said)
	}
}

// TestRecycledPID: a new process with the number of one that has ended is not
// taken for it. It runs in a pid namespace of its own, where nobody else takes
// numbers and the next one can be chosen.
func TestRecycledPID(t *testing.T) {
	if !inPIDNamespace(t) {
		return
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	var c, kept creds // kept is asked next when the number is another process's
	defer c.open.close()
	defer kept.open.close()
	old, caller := sleeper(t, 4711, 4712)
	for _, c := range []*creds{&c, &kept} {
		if got := c.of(caller).GIDs; !slices.Equal(got, []uint32{4711, 4712}) {
			t.Errorf("groups %v", got)
		}
	}
	pid := old.Process.Pid
	end(old)
	if got := c.of(caller).GIDs; got != nil {
		t.Errorf("groups %v of a process that has ended", got)
	}
	for range 1000 {
		last := []byte(strconv.Itoa(pid - 1))
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", last, 0); err != nil {
			t.Fatal(err)
		}
		// Threads of this process take numbers, too.
		again, caller := sleeper(t, 815)
		if again.Process.Pid != pid {
			end(again)
			continue
		}
		for _, c := range []*creds{&c, &kept} {
			if got := c.of(caller).GIDs; !slices.Equal(got, []uint32{815}) {
				t.Errorf("groups %v of a process with the number of an earlier one", got)
			}
		}
		end(again)
		return
	}
	t.Error("no process got the number again")
}

// TestCredentials: many groups, groups of threads that act for somebody else,
// and of callers that cannot be seen.
func TestCredentials(t *testing.T) {
	needRoot(t)
	var many []uint32
	for g := range uint32(3000) {
		many = append(many, 100_000+g)
	}
	var said []string
	c := creds{log: testlog.To(func(message string) { said = append(said, message) })}
	defer c.open.close()
	cmd, caller := sleeper(t, many...)
	defer end(cmd)
	cr := c.of(caller)
	if !slices.Equal(cr.GIDs, many) || cr.UID != 65534 || cr.GID != 65534 {
		t.Errorf("%d groups of %d, user %d, group %d", len(cr.GIDs), len(many), cr.UID, cr.GID)
	}
	if cr := c.ids(caller); cr.GIDs != nil || cr.UID != 65534 || cr.GID != 65534 {
		t.Errorf("ids %+v", cr)
	}
	stranger := *caller
	stranger.Uid = 1234
	if cr := c.of(&stranger); cr.GIDs != nil || cr.UID != 1234 {
		t.Errorf("a user whom the process acts for has the process's groups: %+v", cr)
	}
	if said != nil {
		t.Errorf("said %q", said)
	}
	for range 3 {
		if cr := c.of(&fuse.InHeader{Caller: fuse.Caller{Owner: fuse.Owner{Uid: 7, Gid: 8}}}); cr.GIDs != nil || cr.UID != 7 || cr.GID != 8 {
			t.Errorf("from outside the pid namespace: %+v", cr)
		}
	}
	if len(said) != 1 || !strings.Contains(said[0], "pid namespace") {
		t.Errorf("said %q", said)
	}
	for range 3 {
		c.of(&fuse.InHeader{Caller: fuse.Caller{Pid: 1 << 30}})
	}
	if len(said) != 2 || !strings.Contains(said[1], "process 1073741824") {
		t.Errorf("said %q", said)
	}
}

// TestStatusesAreBounded: descriptors of many threads do not add up, what they show is
// never another thread's, and none is left open.
func TestStatusesAreBounded(t *testing.T) {
	needRoot(t)
	open := func() (n int) {
		t.Helper()
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range all {
			if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasSuffix(to, "/status") {
				n++
			}
		}
		return n
	}
	var c creds
	var callers []*fuse.InHeader
	for g := range maxStatuses + 10 {
		cmd, caller := sleeper(t, uint32(1000+g))
		defer end(cmd)
		callers = append(callers, caller)
	}
	var done sync.WaitGroup
	for range 4 {
		done.Go(func() {
			for range 3 {
				for g, caller := range callers {
					if got := c.of(caller).GIDs; !slices.Equal(got, []uint32{uint32(1000 + g)}) {
						t.Errorf("groups %v, want %d", got, 1000+g)
					}
				}
			}
		})
	}
	done.Wait()
	if n := open(); n == 0 || n > maxStatuses {
		t.Errorf("%d descriptors are kept, of %d at most", n, maxStatuses)
	}
	c.open.close()
	c.of(callers[0])
	if n := open(); n != 0 {
		t.Errorf("%d descriptors are left", n)
	}
}

// BenchmarkCredentials is what each request pays whose answer groups may decide.
func BenchmarkCredentials(b *testing.B) {
	var c creds
	defer c.open.close()
	h := &fuse.InHeader{Caller: fuse.Caller{Pid: uint32(os.Getpid()), Owner: fuse.Owner{Uid: uint32(os.Geteuid())}}}
	for b.Loop() {
		c.of(h)
	}
}
