package control

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
)

// FuzzControl: whatever a client of the control socket says, it gets one of the
// answers that there are, and the connection ends. A client goes on when it has
// hung up.
func FuzzControl(f *testing.F) {
	for _, said := range []string{"sync\n", "sync 0:50\n", "sync 0:51\n", "wait\n", "abort\n", "stats", "", "\n", " abort \n", "wait 0:50 \nabort\n",
		strings.Repeat("x", 100), "abort\x00\n", "\xff\xfe\n"} {
		f.Add([]byte(said))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		if line, _, _ := bytes.Cut(said, []byte("\n")); strings.HasPrefix(strings.TrimSpace(string(line)), "stats") {
			return // needs a mount
		}
		aborted := 0
		c := &Server{
			ended: make(chan struct{}),
			mount: Mount{Device: "0:50", Sync: func(context.Context) error { return nil }, Abort: func() { aborted++ }},
			conns: make(map[net.Conn]struct{}), waiters: make(map[net.Conn]struct{}), syncs: make(map[net.Conn]context.CancelFunc),
		}
		ours, theirs := net.Pipe()
		c.conns[ours] = struct{}{}
		c.serving.Add(1)
		go c.runAnswer(ours)
		read := make(chan []byte)
		go runReadFirst(theirs, read)
		_, _ = theirs.Write(said) // fails when no more is wanted
		if !bytes.ContainsRune(said, '\n') {
			theirs.Close()
		}
		answer := <-read
		theirs.Close()
		c.serving.Wait()
		switch string(answer) {
		case "", waiting + "\n", done + "\n":
		case "ok\n":
			if aborted != 1 {
				t.Errorf("%q is said to have aborted the mount", said)
			}
		default:
			t.Errorf("%q is answered with %q", said, answer)
		}
		if len(c.conns)+len(c.waiters)+len(c.syncs) != 0 {
			t.Errorf("after %q a connection is left", said)
		}
	})
}

// runReadFirst hands over what comes first on a connection, and reads the rest.
func runReadFirst(conn net.Conn, to chan<- []byte) {
	b := make([]byte, 64)
	n, _ := conn.Read(b)
	to <- b[:n]
	_, _ = io.Copy(io.Discard, conn)
}
