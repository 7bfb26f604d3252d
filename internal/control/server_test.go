package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWaiterSeesTheEnd: a client that waits learns how the mount ended, and one
// that connects while the daemon ends learns that there is none. Neither sees
// its connection reset, as a socket closed with words unread would have it.
func TestWaiterSeesTheEnd(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	lost := errors.New("two bytes are lost")
	held := 0
	for range 500 {
		c, err := New(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			c.RunServe(Mount{Device: "0:50"})
		}()
		type result struct {
			wrong string
			err   error
		}
		came := make(chan struct{})
		heard := make(chan result)
		go func() {
			close(came)
			w, err := holdAt(own(c), "wait 0:50")
			if err != nil {
				heard <- result{err: err}
				return
			}
			defer w.Close()
			wrong, err := w.End()
			heard <- result{wrong, err}
		}()
		<-came
		c.Finish(lost)
		<-served
		switch got := <-heard; {
		case errors.Is(got.err, ErrNoDaemon):
		case got.err != nil || got.wrong != lost.Error():
			t.Fatalf("a waiter heard %q, %v", got.wrong, got.err)
		default:
			held++
		}
	}
	t.Logf("%d of 500 came in time to be held", held)
}

// serveControl makes the control socket of a mount with device number 0:50; served
// is closed after finish.
func serveControl(t *testing.T) (c *Server, served <-chan struct{}) {
	return serveSyncs(t, nil)
}

func serveSyncs(t *testing.T, sync func(context.Context) error) (c *Server, served <-chan struct{}) {
	t.Helper()
	return serveMount(t, Mount{Device: "0:50", Sync: sync})
}

func serveMount(t *testing.T, m Mount) (c *Server, served <-chan struct{}) {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	c, err := New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.RunServe(m)
	}()
	return c, ended
}

// TestHeldWaiterSeesTheEnd: a client that was promised the end is never left without the
// end.
func TestHeldWaiterSeesTheEnd(t *testing.T) {
	c, served := serveControl(t)
	w, err := holdAt(own(c), "wait 0:50")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	c.Finish(errors.New("two bytes are lost"))
	<-served
	if wrong, err := w.End(); wrong != "two bytes are lost" || err != nil {
		t.Fatalf("heard %q, %v", wrong, err)
	}
}

// TestStuckDaemon: a daemon that does not end is named.
func TestStuckDaemon(t *testing.T) {
	c, served := serveControl(t)
	w, err := holdAt(own(c), "wait 0:50")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	w.EndWithin(time.Nanosecond)
	var hung *StuckError
	if _, err := w.End(); !errors.As(err, &hung) || int(hung.PID) != os.Getpid() {
		t.Errorf("%v, want one of process %d", err, os.Getpid())
	}
	c.Finish(nil)
	<-served
}

// TestAnotherMountsDaemon: who asks for another mount of the same place hears
// nothing.
func TestAnotherMountsDaemon(t *testing.T) {
	c, served := serveControl(t)
	if _, err := holdAt(own(c), "wait 0:51"); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("another device: %v", err)
	}
	w, err := holdAt(own(c), "wait")
	if err != nil {
		t.Fatalf("any device: %v", err)
	}
	w.Close()
	c.Finish(nil)
	<-served
}

// own is the address of a control socket of this process.
func own(c *Server) []address { return []address{{c.path, uint32(os.Geteuid())}} }

// TestSync: who asks for it hears that everything is safe, or what failed.
func TestSync(t *testing.T) {
	results := make(chan error, 1)
	c, served := serveSyncs(t, func(context.Context) error { return <-results })
	for _, want := range []error{nil, errors.New("two bytes\nare lost"), nil} {
		results <- want
		said := done
		if want != nil {
			said = "two bytes; are lost"
		}
		w, err := holdAt(own(c), "sync 0:50")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := w.End(); got != said || err != nil {
			t.Errorf("%q, %v, want %q", got, err, said)
		}
		w.Close()
	}
	c.Finish(nil)
	<-served
}

// TestSyncEnds: a sync under way ends with the client that asked for it, and
// with the mount; then no more are taken. What it found lost is reported at the end
// of the mount.
func TestSyncEnds(t *testing.T) {
	came, left := make(chan struct{}), make(chan struct{})
	c, served := serveSyncs(t, func(ctx context.Context) error {
		came <- struct{}{}
		<-ctx.Done()
		left <- struct{}{}
		return errors.Join(fmt.Errorf("inode 7: %w", ctx.Err()), errors.New("two bytes are lost"))
	})
	w, err := holdAt(own(c), "sync 0:50")
	if err != nil {
		t.Fatal(err)
	}
	<-came
	w.Close()
	<-left
	if w, err = holdAt(own(c), "sync 0:50"); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	<-came
	stopped := make(chan error)
	go func() { stopped <- c.StopSyncs() }()
	<-left
	// The one of the client that had gone, and the one that was ended.
	if err := <-stopped; err == nil || err.Error() != "two bytes are lost\ntwo bytes are lost" {
		t.Errorf("nobody heard, and now: %v", err)
	}
	if said, err := w.End(); said != "" || err != nil {
		t.Errorf("when the mount ended: %q, %v", said, err)
	}
	if _, err := holdAt(own(c), "sync 0:50"); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("after that: %v", err)
	}
	c.Finish(nil)
	<-served
}

// TestGoneWaiter: the daemon does not keep the connections of those who wait no
// longer.
func TestGoneWaiter(t *testing.T) {
	c, served := serveControl(t)
	for range 20 {
		w, err := holdAt(own(c), "wait")
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
	}
	awaitIdle(c)
	c.Finish(nil)
	<-served
}

// awaitIdle returns when no client has a connection.
func awaitIdle(c *Server) {
	for {
		c.mu.Lock()
		n := len(c.waiters) + len(c.conns)
		c.mu.Unlock()
		if n == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// fullEnv makes the test binary a daemon without descriptors: see
// TestNoDescriptorLeft.
const fullEnv = "_RDMAFS_TEST_FULL"

// TestNoDescriptorLeft: a daemon answers though it has no descriptor left, one
// client after the other, and goes on as before when there are some again.
func TestNoDescriptorLeft(t *testing.T) {
	if os.Getenv(fullEnv) != "" {
		beFull(t)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestNoDescriptorLeft$", "-test.v")
	cmd.Env = append(os.Environ(), fullEnv+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	await := func(word string) string {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("the daemon ended before it said %q", word)
			}
			if rest, is := strings.CutPrefix(strings.TrimSpace(line), word); is {
				return rest
			}
		}
	}
	at := []address{{await("socket "), uint32(os.Geteuid())}}
	await("full")
	for range 5 {
		if b, err := askAt(at, "abort"); err != nil || string(b) != "ok\n" {
			t.Fatalf("without descriptors: %q, %v", b, err)
		}
	}
	if _, err := io.WriteString(stdin, "free\n"); err != nil {
		t.Fatal(err)
	}
	await("freed")
	w, err := holdAt(at, "wait")
	if err != nil {
		t.Fatalf("with descriptors: %v", err)
	}
	defer w.Close()
	stdin.Close()
	if said, err := w.End(); said != "the end" || err != nil {
		t.Errorf("heard %q, %v", said, err)
	}
	_, _ = io.Copy(io.Discard, lines)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// beFull serves a control socket with every descriptor in use until its input
// has a line, and until that ends.
func beFull(t *testing.T) {
	c, served := serveMount(t, Mount{Abort: func() {}})
	if _, err := askAt(own(c), "abort"); err != nil {
		t.Fatal(err)
	}
	awaitIdle(c) // and from here on it opens and closes nothing
	fmt.Println("socket", c.path)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}); err != nil {
		t.Fatal(err)
	}
	var all []int
	for {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		all = append(all, fd)
	}
	fmt.Println("full")
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')
	for _, fd := range all {
		unix.Close(fd)
	}
	fmt.Println("freed")
	_, _ = in.ReadString('\n')
	c.Finish(errors.New("the end"))
	<-served
}
