package mount

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lockChild is a process that locks what it is told to: the owner of POSIX locks is
// a process.
type lockChild struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startLockChild starts a process that ends with the test at the latest.
func startLockChild(t *testing.T) *lockChild {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLockChild$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), insideChild+`=["lock"]`)
	cmd.Stderr = os.Stderr
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
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &lockChild{cmd, in, bufio.NewReader(out)}
}

// begin has the child do something; the answer comes when it has.
func (c *lockChild) begin(t *testing.T, format string, args ...any) (answer <-chan string) {
	t.Helper()
	if _, err := fmt.Fprintf(c.in, format+"\n", args...); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	go func() {
		line, err := c.out.ReadString('\n')
		if err != nil {
			line = err.Error()
		}
		said <- strings.TrimSpace(line)
	}()
	return said
}

// says is what the child answers.
func says(t *testing.T, answer <-chan string) string {
	t.Helper()
	select {
	case s := <-answer:
		return s
	case <-time.After(patience):
		t.Fatal("a process waits for a lock")
		return ""
	}
}

// must has the child do something that must have the result that is given.
func (c *lockChild) must(t *testing.T, want, format string, args ...any) {
	t.Helper()
	if got := says(t, c.begin(t, format, args...)); got != want {
		t.Errorf("%s: %q, want %q", fmt.Sprintf(format, args...), got, want)
	}
}

// TestLockChild is what the processes of startLockChild run.
func TestLockChild(t *testing.T) {
	if childArgs(t) == nil {
		t.Skip("other tests run it")
	}
	var fds []int
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		w := strings.Fields(in.Text())
		answer := "ok"
		if w[0] == "open" {
			flags, err := strconv.Atoi(w[2])
			if err != nil {
				t.Fatal(err)
			}
			fd, err := unix.Open(w[1], flags|unix.O_CLOEXEC, 0o666)
			fds = append(fds, fd)
			if err != nil {
				answer = unix.ErrnoName(err.(unix.Errno))
			}
			fmt.Println(answer)
			continue
		}
		k, _ := strconv.Atoi(w[1])
		err := lockCommand(fds[k], w[0], w[2:], &answer)
		if errno, ok := err.(unix.Errno); ok {
			answer = unix.ErrnoName(errno)
		} else if err != nil {
			answer = err.Error()
		}
		fmt.Println(answer)
	}
}

func lockCommand(fd int, what string, w []string, answer *string) error {
	types := map[string]int16{"read": unix.F_RDLCK, "write": unix.F_WRLCK, "un": unix.F_UNLCK}
	flocks := map[string]int{"read": unix.LOCK_SH, "write": unix.LOCK_EX, "un": unix.LOCK_UN}
	number := func(k int) int64 {
		if k >= len(w) {
			return 0
		}
		n, _ := strconv.ParseInt(w[k], 10, 64)
		return n
	}
	fcntl := func(cmd int) error {
		l := unix.Flock_t{Type: types[w[0]], Start: number(1), Len: number(2)}
		err := restarting(func() error { return unix.FcntlFlock(uintptr(fd), cmd, &l) })
		if cmd == unix.F_GETLK && l.Type != unix.F_UNLCK {
			*answer = fmt.Sprintf("%d %d %d", l.Type, l.Start, l.Len)
		}
		return err
	}
	switch what {
	case "try":
		return fcntl(unix.F_SETLK)
	case "wait":
		return fcntl(unix.F_SETLKW)
	case "get":
		return fcntl(unix.F_GETLK)
	case "ofd":
		return fcntl(unix.F_OFD_SETLK)
	case "flock":
		return restarting(func() error { return unix.Flock(fd, flocks[w[0]]) })
	case "tryflock":
		return unix.Flock(fd, flocks[w[0]]|unix.LOCK_NB)
	case "close":
		return unix.Close(fd)
	case "count":
		for range number(1) {
			if err := lockedIncrement(fd, w[0]); err != nil {
				return err
			}
		}
		return nil
	case "write":
		_, err := unix.Pwrite(fd, []byte(w[0]), 0)
		return err
	case "read":
		b := make([]byte, number(0))
		n, err := unix.Pread(fd, b, 0)
		*answer = string(b[:max(n, 0)])
		return err
	}
	return unix.ENOSYS
}

// restarting repeats what a signal of Go's own has ended.
func restarting(do func() error) error {
	for {
		if err := do(); err != unix.EINTR {
			return err
		}
	}
}

// lockedIncrement adds one to the number in a file, under a lock.
func lockedIncrement(fd int, kind string) error {
	lock := func(fcntl int16, flock int) error {
		if kind == "flock" {
			return restarting(func() error { return unix.Flock(fd, flock) })
		}
		l := unix.Flock_t{Type: fcntl}
		return restarting(func() error { return unix.FcntlFlock(uintptr(fd), unix.F_SETLKW, &l) })
	}
	if err := lock(unix.F_WRLCK, unix.LOCK_EX); err != nil {
		return err
	}
	var b [8]byte
	if _, err := unix.Pread(fd, b[:], 0); err != nil {
		return err
	}
	binary.BigEndian.PutUint64(b[:], binary.BigEndian.Uint64(b[:])+1)
	if _, err := unix.Pwrite(fd, b[:], 0); err != nil {
		return err
	}
	return lock(unix.F_UNLCK, unix.LOCK_UN)
}

// TestLockedCounter: a number that processes on two mounts increment under locks is
// exact, over each protocol, by fcntl and flock.
func TestLockedCounter(t *testing.T) {
	for _, c := range []struct {
		name, kind     string
		protoA, protoB string
		roce           bool
		each           int // of four processes
	}{
		{"fcntl, iwarp and tcp", "fcntl", "rdma", "tcp", false, 250},
		{"flock, tcp", "flock", "tcp", "tcp", false, 100},
		{"flock, iwarp", "flock", "rdma", "rdma", false, 100},
		{"fcntl, roce and tcp", "fcntl", "rdma", "tcp", true, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startServer(t, serverOptions{roce: c.roce})
			a, b := s.mount(t, c.protoA, ""), s.mount(t, c.protoB, "")
			var all []<-chan string
			for k := range 4 {
				dir := a.Dir
				if k%2 == 1 {
					dir = b.Dir
				}
				child := startLockChild(t)
				child.must(t, "ok", "open %s %d", filepath.Join(dir, "n"), unix.O_RDWR|unix.O_CREAT)
				all = append(all, child.begin(t, "count 0 %s %d", c.kind, c.each))
			}
			for _, answer := range all {
				if got := says(t, answer); got != "ok" {
					t.Error(got)
				}
			}
			got, err := os.ReadFile(filepath.Join(s.export, "n"))
			if err != nil || len(got) != 8 || binary.BigEndian.Uint64(got) != uint64(4*c.each) {
				t.Errorf("the file has %x, %v; want %d", got, err, 4*c.each)
			}
		})
	}
}

// lockMounts are two mounts of one server, and an open file "f" of each in a process
// of its own.
func lockMounts(t *testing.T, words string) (s *server, a, b *Mounted, on, other *lockChild) {
	t.Helper()
	s = startServer(t, serverOptions{})
	a, b = s.mount(t, "rdma", words), s.mount(t, "tcp", words)
	on, other = openLocked(t, a), openLocked(t, b)
	return s, a, b, on, other
}

// openLocked is a process with the file "f" of a mount open as 0.
func openLocked(t *testing.T, m *Mounted) *lockChild {
	t.Helper()
	c := startLockChild(t)
	c.must(t, "ok", "open %s %d", filepath.Join(m.Dir, "f"), unix.O_RDWR|unix.O_CREAT)
	return c
}

// TestLockRanges: byte ranges of two mounts exclude each other, with splits, joins
// and ranges to the end; F_GETLK tells of them; a close of any descriptor gives all up.
func TestLockRanges(t *testing.T) {
	_, a, _, on, other := lockMounts(t, "")
	on.must(t, "ok", "try 0 write 0 100")
	on.must(t, "ok", "try 0 un 40 20")
	on.must(t, "ok", "try 0 read 80 20")
	on.must(t, "ok", "try 0 write 4611686018427387904 0")
	for _, c := range []struct{ want, lock string }{
		{"EAGAIN", "read 39 1"}, {"ok", "write 40 20"}, {"EAGAIN", "write 59 2"}, {"ok", "read 80 20"}, {"EAGAIN", "write 99 1"},
		{"EAGAIN", "read 4611686018427387904 1"}, {"EAGAIN", "read 9223372036854775806 1"}, {"ok", "write 4611686018427387903 1"},
	} {
		other.must(t, c.want, "try 0 %s", c.lock)
	}
	other.must(t, fmt.Sprintf("%d 0 40", unix.F_WRLCK), "get 0 read 0 10")
	other.must(t, fmt.Sprintf("%d 60 20", unix.F_WRLCK), "get 0 read 70 1")
	on.must(t, "ok", "get 0 write 0 30")
	on.must(t, "EAGAIN", "try 0 write 50 1")
	// The same file, opened once more for reading and closed: the process has no
	// lock of it any more, and another process's stay.
	on.must(t, "ok", "open %s %d", filepath.Join(a.Dir, "f"), unix.O_RDONLY)
	on.must(t, "ok", "close 1")
	other.must(t, "ok", "try 0 write 0 40")
	on.must(t, "EAGAIN", "try 0 read 0 1")
}

// TestLockOfReader: a lock of a file that was opened for reading, and was never locked
// before, is given up by the last close, as is one of an open file description.
func TestLockOfReader(t *testing.T) {
	_, a, _, on, other := lockMounts(t, "")
	on.must(t, "ok", "open %s %d", filepath.Join(a.Dir, "f"), unix.O_RDONLY)
	on.must(t, "ok", "try 1 read 0 0")
	other.must(t, "EAGAIN", "try 0 write 0 0")
	on.must(t, "ok", "close 1")
	waiting := other.begin(t, "wait 0 write 0 0")
	if got := says(t, waiting); got != "ok" {
		t.Error(got)
	}
	other.must(t, "ok", "try 0 un 0 0")
	on.must(t, "ok", "ofd 0 write 0 10")
	other.must(t, "EAGAIN", "try 0 read 0 1")
	on.must(t, "ok", "close 0")
	if got := says(t, other.begin(t, "wait 0 write 0 0")); got != "ok" {
		t.Error(got)
	}
}

// TestLockWaits: who waits gets the lock after the holder has closed the file, or was
// killed, on the other mount or on the same; and sees what was written under it.
func TestLockWaits(t *testing.T) {
	for _, over := range []string{"dev", "ring"} {
		t.Run(over, func(t *testing.T) {
			words := "fuse=" + over
			_, a, _, on, other := lockMounts(t, words)
			third := openLocked(t, a)
			on.must(t, "ok", "wait 0 write 0 0")
			there, here := other.begin(t, "wait 0 write 0 0"), third.begin(t, "wait 0 write 0 0")
			on.must(t, "ok", "write 0 first")
			on.must(t, "ok", "close 0")
			// One of the two has it now, and the other when that is killed.
			first, second, last := other, third, here
			select {
			case got := <-there:
				if got != "ok" {
					t.Fatal(got)
				}
			case got := <-here:
				if got != "ok" {
					t.Fatal(got)
				}
				first, second, last = third, other, there
			case <-time.After(patience):
				t.Fatal("the lock is not granted")
			}
			first.must(t, "first", "read 0 5")
			first.must(t, "ok", "write 0 other")
			if err := first.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if got := says(t, last); got != "ok" {
				t.Fatal(got)
			}
			second.must(t, "other", "read 0 5")
		})
	}
}

// TestLockWaitEnds: a signal ends a wait, for an owner of this mount or of another,
// and what it waited for can be had afterwards.
func TestLockWaitEnds(t *testing.T) {
	for _, over := range []string{"dev", "ring"} {
		t.Run(over, func(t *testing.T) {
			words := "fuse=" + over
			_, a, b, on, _ := lockMounts(t, words)
			on.must(t, "ok", "flock 0 write")
			for _, m := range []*Mounted{a, b} {
				// flock(1) has a timer's signal interrupt it.
				out, err := exec.Command("flock", "-w", "0.2", "-E", "77", filepath.Join(m.Dir, "f"), "true").CombinedOutput()
				if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 77 {
					t.Errorf("%v, %s", err, out)
				}
				killed := openLocked(t, m)
				waits := killed.begin(t, "wait 0 write 0 0")
				if err := killed.cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				_ = killed.cmd.Wait()
				<-waits
			}
			on.must(t, "ok", "flock 0 un")
			for _, m := range []*Mounted{a, b} {
				if out, err := exec.Command("flock", "-w", "60", filepath.Join(m.Dir, "f"), "true").CombinedOutput(); err != nil {
					t.Errorf("%v, %s", err, out)
				}
			}
		})
	}
}

// TestLockDeadlock: processes of one mount that would wait for each other are told.
func TestLockDeadlock(t *testing.T) {
	s := startServer(t, serverOptions{})
	m := s.mount(t, "rdma", "")
	x, y := openLocked(t, m), openLocked(t, m)
	x.must(t, "ok", "wait 0 write 0 1")
	y.must(t, "ok", "wait 0 write 1 1")
	ofX, ofY := x.begin(t, "wait 0 write 1 1"), y.begin(t, "wait 0 write 0 1")
	told, other := y, ofX
	var got string
	select { // who has come later
	case got = <-ofY:
	case got = <-ofX:
		told, other = x, ofY
	case <-time.After(patience):
		t.Fatal("nobody is told")
	}
	if got != "EDEADLK" {
		t.Error(got)
	}
	told.must(t, "ok", "try 0 un 0 0")
	if got := says(t, other); got != "ok" {
		t.Error(got)
	}
}

// TestManyLockWaiters: 50 processes of two mounts wait for one lock, and each gets it.
func TestManyLockWaiters(t *testing.T) {
	for _, over := range []string{"dev", "ring"} {
		t.Run(over, func(t *testing.T) {
			words := "fuse=" + over
			s, a, b, on, _ := lockMounts(t, words)
			on.must(t, "ok", "flock 0 write")
			const each = 25
			var wg sync.WaitGroup
			for k := range 2 * each {
				dir := a.Dir
				if k%2 == 1 {
					dir = b.Dir
				}
				wg.Go(func() {
					out, err := exec.Command("flock", filepath.Join(dir, "f"), "sh", "-c", `echo x >> "$0"`, filepath.Join(dir, "log")).CombinedOutput()
					if err != nil {
						t.Errorf("%v, %s", err, out)
					}
				})
			}
			on.must(t, "ok", "flock 0 un")
			wg.Wait()
			if got, err := os.ReadFile(filepath.Join(s.export, "log")); len(got) != 4*each || err != nil {
				t.Errorf("%d bytes were appended of %d, %v", len(got), 4*each, err)
			}
		})
	}
}

// TestLocalLocks: nolock and local_lock have a mount's locks hold within it, and tell
// the server nothing.
func TestLocalLocks(t *testing.T) {
	s := startServer(t, serverOptions{})
	for _, c := range []struct {
		words         string
		posix, flocks string // what another mount gets
	}{
		{"nolock", "ok", "ok"}, {"local_lock=all", "ok", "ok"}, {"local_lock=flock", "EAGAIN", "ok"}, {"local_lock=posix", "ok", "EAGAIN"},
	} {
		t.Run(c.words, func(t *testing.T) {
			a, b := s.mount(t, "tcp", c.words), s.mount(t, "tcp", "")
			name := strings.ReplaceAll(c.words, "=", "_")
			var on, same, other *lockChild
			for _, p := range []struct {
				child **lockChild
				dir   string
			}{{&on, a.Dir}, {&same, a.Dir}, {&other, b.Dir}} {
				*p.child = startLockChild(t)
				for _, kind := range []string{"posix", "flock"} {
					(*p.child).must(t, "ok", "open %s %d", filepath.Join(p.dir, name+kind), unix.O_RDWR|unix.O_CREAT)
				}
			}
			on.must(t, "ok", "try 0 write 0 0")
			on.must(t, "ok", "tryflock 1 write")
			same.must(t, "EAGAIN", "try 0 write 0 0")
			same.must(t, "EAGAIN", "tryflock 1 write")
			other.must(t, c.posix, "try 0 write 0 0")
			other.must(t, c.flocks, "tryflock 1 write")
		})
	}
}

// TestLocksAfterTheDaemonWasKilled: the locks of a daemon that was killed are given
// up by the next one, and another mount gets them then.
func TestLocksAfterTheDaemonWasKilled(t *testing.T) {
	s, a, _, on, other := lockMounts(t, "")
	on.must(t, "ok", "try 0 write 0 0")
	other.must(t, "EAGAIN", "try 0 write 0 0")
	pid, exited := daemon(t, a)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	exited()
	if err := unix.Unmount(a.Dir, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	other.must(t, "EAGAIN", "try 0 write 0 0")
	s.mount(t, "rdma", "")
	if got := says(t, other.begin(t, "wait 0 write 0 0")); got != "ok" {
		t.Error(got)
	}
}

// TestLocksAfterTheServerRestarted: a holder has its lock back before others are let
// in, and goes on.
func TestLocksAfterTheServerRestarted(t *testing.T) {
	s := startServer(t, serverOptions{grace: -1})
	on, other := openLocked(t, s.mount(t, "rdma", "")), openLocked(t, s.mount(t, "tcp", ""))
	on.must(t, "ok", "try 0 write 0 0")
	on.must(t, "ok", "write 0 first")
	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
	waits := other.begin(t, "wait 0 write 0 0")
	for end := time.Now().Add(patience); s.Locks() == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the lock is not reclaimed")
		}
	}
	s.EndGrace()
	on.must(t, "ok", "write 0 again")
	on.must(t, "again", "read 0 5")
	on.must(t, "ok", "close 0")
	if got := says(t, waits); got != "ok" {
		t.Error(got)
	}
	other.must(t, "again", "read 0 5")
}
