package daemon

import (
	"net"
	"testing"
)

// pair is a daemon's and its parent's end of their socket.
func pair(t *testing.T) (daemon, command net.Conn) {
	t.Helper()
	command, w, err := readySocket()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	daemon, err = net.FileConn(w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		daemon.Close()
		command.Close()
	})
	return daemon, command
}

// TestParentGone: a parent that ends before it was notified ends the mount, and
// cannot be notified any more.
func TestParentGone(t *testing.T) {
	daemon, command := pair(t)
	gone := make(chan struct{})
	p := newParent(daemon, func() { close(gone) })
	command.Close()
	<-gone
	if err := p.notify(); err == nil {
		t.Error("a parent that has ended was notified")
	}
}

// TestParentNotified: either the parent is notified, and its end means nothing from then
// on, or the mount ends: never neither, never both.
func TestParentNotified(t *testing.T) {
	notified := 0
	for k := range 500 {
		daemon, command := pair(t)
		gone := make(chan struct{})
		p := newParent(daemon, func() { close(gone) })
		read := make(chan struct{})
		go func() {
			defer close(read)
			if k%2 == 0 {
				_, _ = command.Read(make([]byte, 1))
			}
			command.Close() // at once, as a command ends that has nothing else to do
		}()
		err := p.notify()
		<-read
		select {
		case <-gone:
			if err == nil {
				t.Fatal("notified, and ended all the same")
			}
		default:
			if err != nil {
				t.Fatalf("not notified (%v), and goes on", err)
			}
			notified++
		}
	}
	if notified < 250 {
		t.Errorf("notified %d times only", notified)
	}
}
