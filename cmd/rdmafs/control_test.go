package main

import (
	"errors"
	"os"
	"testing"
	"time"
)

// TestWaiterSeesTheEnd: whoever is told to wait hears how the mount ended, and
// one who comes while the daemon ends hears that there is none. Neither sees
// its connection reset, as a socket closed with words unread would have it.
func TestWaiterSeesTheEnd(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	lost := errors.New("two bytes are lost")
	held := 0
	for range 500 {
		c, err := newControl(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			c.runServe(nil, "0:50", nil)
		}()
		type result struct {
			wrong string
			err   error
		}
		came := make(chan struct{})
		heard := make(chan result)
		go func() {
			close(came)
			w, err := dialWaiterAt([]string{c.path}, "wait 0:50")
			if err != nil {
				heard <- result{err: err}
				return
			}
			defer w.Close()
			wrong, err := w.end()
			heard <- result{wrong, err}
		}()
		<-came
		c.finish(lost)
		<-served
		switch got := <-heard; {
		case errors.Is(got.err, errNoDaemon):
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
func serveControl(t *testing.T) (c *control, served <-chan struct{}) {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	c, err := newControl(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.runServe(nil, "0:50", nil)
	}()
	return c, done
}

// TestHeldWaiterHears: a waiter that was told to wait is never left without the
// end.
func TestHeldWaiterHears(t *testing.T) {
	c, served := serveControl(t)
	w, err := dialWaiterAt([]string{c.path}, "wait 0:50")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	c.finish(errors.New("two bytes are lost"))
	<-served
	if wrong, err := w.end(); wrong != "two bytes are lost" || err != nil {
		t.Fatalf("heard %q, %v", wrong, err)
	}
}

// TestStuckDaemon: a daemon that does not end is named.
func TestStuckDaemon(t *testing.T) {
	c, served := serveControl(t)
	w, err := dialWaiterAt([]string{c.path}, "wait 0:50")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	var hung *stuckError
	if err := awaitEnd("/mnt", w); !errors.As(err, &hung) || int(hung.pid) != os.Getpid() {
		t.Errorf("%v, want one of process %d", err, os.Getpid())
	}
	c.finish(nil)
	<-served
}

// TestAnotherMountsDaemon: who asks for another mount of the same place hears
// nothing.
func TestAnotherMountsDaemon(t *testing.T) {
	c, served := serveControl(t)
	if _, err := dialWaiterAt([]string{c.path}, "wait 0:51"); !errors.Is(err, errNoDaemon) {
		t.Errorf("another device: %v", err)
	}
	w, err := dialWaiterAt([]string{c.path}, "wait")
	if err != nil {
		t.Fatalf("any device: %v", err)
	}
	w.Close()
	c.finish(nil)
	<-served
}
