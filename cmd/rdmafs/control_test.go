package main

import (
	"errors"
	"testing"
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
			c.runServe(nil, nil)
		}()
		type result struct {
			wrong string
			err   error
		}
		came := make(chan struct{})
		heard := make(chan result)
		go func() {
			close(came)
			w, err := dialWaiterAt([]string{c.path})
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

// TestHeldWaiterHears: a waiter that was told to wait is never left without the
// end.
func TestHeldWaiterHears(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	c, err := newControl(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		c.runServe(nil, nil)
	}()
	w, err := dialWaiterAt([]string{c.path})
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
