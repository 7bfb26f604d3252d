package control

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// listenAs stands in for a daemon: it answers every request with what answer
// writes.
func listenAs(t *testing.T, answer func(net.Conn)) address {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 64))
			answer(conn)
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-ended
	})
	return address{path, uint32(os.Geteuid())}
}

// TestAnswersAreBounded: a daemon that goes on answering is given up.
func TestAnswersAreBounded(t *testing.T) {
	wrote := make(chan int64, 2)
	at := listenAs(t, func(conn net.Conn) {
		n, _ := io.Copy(conn, endless{})
		wrote <- n
	})
	if _, err := askAt([]address{at}, "stats"); err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("stats: %v", err)
	}
	if _, err := holdAt([]address{at}, "wait"); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("wait: %v", err)
	}
	for range 2 {
		// What was read, and what the two buffers of a socket take.
		if n := <-wrote; n > 4*maxAnswer {
			t.Errorf("%d bytes were taken", n)
		}
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

// TestOthersSocket: a socket on which somebody else listens than the user whose
// directory it is in is not spoken to.
func TestOthersSocket(t *testing.T) {
	asked := false
	at := listenAs(t, func(conn net.Conn) {
		asked = true
		_, _ = io.WriteString(conn, waiting+"\n")
	})
	at.uid++
	if _, err := askAt([]address{at}, "stats"); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("stats: %v", err)
	}
	if _, err := holdAt([]address{at}, "wait"); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("wait: %v", err)
	}
	at.uid--
	if _, err := askAt([]address{at}, "stats"); err != nil || !asked {
		t.Errorf("its own user: %v", err)
	}
}
