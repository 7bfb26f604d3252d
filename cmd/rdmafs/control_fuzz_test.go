package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"
	"unicode"

	"github.com/rdmafs/rdmafs/internal/plain"
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
		c := &control{
			device: "0:50", ended: make(chan struct{}), sync: func(context.Context) error { return nil },
			conns: make(map[net.Conn]struct{}), waiters: make(map[net.Conn]struct{}), syncs: make(map[net.Conn]context.CancelFunc),
		}
		ours, theirs := net.Pipe()
		c.conns[ours] = struct{}{}
		c.serving.Add(1)
		go c.runAnswer(ours, nil, func() { aborted++ })
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

// FuzzReport: what another user's daemon says of itself reaches a terminal as
// text, with no character that would be obeyed there.
func FuzzReport(f *testing.F) {
	f.Add([]byte(`{"Source":"server:/export","MountPoint":"/mnt","Transport":"tcp","Server":"10.0.0.5:2049","Version":"3","Note":"x"}`))
	f.Add([]byte("{\"Source\":\"\x1b]0;owned\\u0007\",\"MountPoint\":\"\\u202e/tnm\",\"Device\":\"\\u009b2J\",\"Keys\":\"a\\nb\",\"RDMA\":{\"Version\":1}}"))
	f.Add([]byte(`{"Calls":{"Terms":{"Version":2},"Calls":18446744073709551615}}`))
	f.Add([]byte(`{"PID":-1,"Timeo":1e308,"Buffers":9223372036854775807}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r report
		if json.Unmarshal(b, &r) != nil {
			return
		}
		var out bytes.Buffer
		if err := printReport(&out, r); err != nil {
			t.Fatal(err)
		}
		if err := printStatus(&out, r.inForce); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(plain.JSON(text))
		if i := strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }); i >= 0 {
			t.Errorf("%q is printed for %q", out.String()[i:min(i+8, out.Len())], b)
		}
	})
}
