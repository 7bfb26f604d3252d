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

// TestParentGone: a parent that goes before it was told ends the mount, and
// cannot be told any more.
func TestParentGone(t *testing.T) {
	daemon, command := pair(t)
	gone := make(chan struct{})
	p := newParent(daemon, func() { close(gone) })
	command.Close()
	<-gone
	if err := p.tell(); err == nil {
		t.Error("a parent that has gone was told")
	}
}

// TestParentTold: either the parent is told, and its end means nothing from then
// on, or the mount ends: never neither, never both.
func TestParentTold(t *testing.T) {
	told := 0
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
		err := p.tell()
		<-read
		select {
		case <-gone:
			if err == nil {
				t.Fatal("told, and ended all the same")
			}
		default:
			if err != nil {
				t.Fatalf("not told (%v), and goes on", err)
			}
			told++
		}
	}
	if told < 250 {
		t.Errorf("told %d times only", told)
	}
}
