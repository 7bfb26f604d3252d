package mount

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Exit codes of mount(8).
const (
	usage       = 1
	interrupted = 8
	fail        = 32
)

// TestMountErrors: each way to fail is one line that says what and why, with the
// exit code of mount(8).
func TestMountErrors(t *testing.T) {
	s := startServer(t, serverOptions{})
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	closed := closedPort(t)
	silent := silentPort(t)
	garbage := garbagePort(t)
	local := "127.0.0.1:" + s.export
	for _, c := range []struct {
		name        string
		source, dir string
		words       string
		code        int
		says        []string
	}{
		{"unknown option", local, dir, "frobnicate", usage, []string{`"frobnicate"`, "unknown"}},
		{"bad value", local, dir, "proto=carrier-pigeon", usage, []string{"proto=carrier-pigeon", "rdma"}},
		{"remount of nothing", local, dir, "remount,ro", usage, []string{"no mount of rdmafs"}},
		{"wrong version", local, dir, "vers=4.0", usage, []string{`"vers=4.0"`, "3, 4.1 and 4.2"}},
		{"no name", local, "", "", usage, []string{"no name"}},
		{"mount point in a file", local, filepath.Join(file, "x"), "", fail, []string{"not a directory", file}},
		{"address of nobody", "0.0.0.0:/x", dir, "", fail, []string{"0.0.0.0 is no address of a server"}},
		{"address of a link", "[fe80::1]:/x", dir, "", fail, []string{"[fe80::1%eth0]:/export"}},
		{"no such interface", "[fe80::1%none]:/x", dir, "", fail, []string{`no network interface "none"`}},
		{"address of another host, rdma", local, dir, fmt.Sprintf("srcaddr=192.0.2.1,port=%d", closed), fail, []string{"srcaddr=192.0.2.1 is no address of this host"}},
		{"address of another host, tcp", local, dir, fmt.Sprintf("proto=tcp,srcaddr=192.0.2.1,port=%d", closed), fail, []string{"srcaddr=192.0.2.1 is no address of this host"}},
		{"no colon", "server", dir, "", usage, []string{"server:/export"}},
		{"mount point missing", local, filepath.Join(dir, "none"), "", fail, []string{"does not exist", "mkdir"}},
		{"mount point a file", local, file, "", fail, []string{"not a directory", file}},
		{"unknown host", "no-such-host.invalid:/x", dir, "", fail, []string{"no-such-host.invalid", "address"}},
		{"nobody listens, rdma", local, dir, fmt.Sprintf("proto=rdma,port=%d", closed), fail, []string{"refused", fmt.Sprint(closed), "proto=tcp"}},
		{"nobody listens, tcp", local, dir, fmt.Sprintf("proto=tcp,port=%d", closed), fail, []string{"refused", fmt.Sprint(closed)}},
		{"no answer, rdma", local, dir, fmt.Sprintf("proto=rdma,port=%d,timeo=10", silent), fail, []string{"no answer", fmt.Sprint(silent)}},
		{"garbage for an MPA reply", local, dir, fmt.Sprintf("proto=rdma,port=%d,timeo=10", garbage), fail, []string{fmt.Sprint(garbage)}},
		{"no mountd", local, dir, s.words("rdma", fmt.Sprintf("mountport=%d", closed)), fail, []string{"mountd", "refused"}},
		{"no such export", "127.0.0.1:/no/such/export", dir, s.words("rdma", ""), fail, []string{"/no/such/export", s.export}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := []string{"mount", c.source, c.dir, "-o", "retry=0," + c.words}
			checkFailure(t, Command(t, nil, args...), c.code, c.says...)
		})
	}
}

// TestRefusedWhenReached: where the server was reached and refused, what RDMA
// would need on this host is no part of the answer.
func TestRefusedWhenReached(t *testing.T) {
	s := startServer(t, serverOptions{})
	r := Command(t, nil, "mount", "127.0.0.1:/no/such/export", t.TempDir(), "-o", s.words("rdma", ""))
	checkFailure(t, r, fail, "no such export")
	if strings.Contains(r.Stderr, "rdma=") {
		t.Errorf("%q speaks of providers", r.Stderr)
	}
}

// checkFailure: the command ended with a code and one line on standard error.
func checkFailure(t *testing.T, r Result, code int, says ...string) {
	t.Helper()
	line := strings.TrimSuffix(r.Stderr, "\n")
	if r.Code != code {
		t.Errorf("exit code %d, want %d", r.Code, code)
	}
	if strings.Contains(line, "\n") || !strings.HasPrefix(line, "rdmafs: ") {
		t.Errorf("not one line that starts with rdmafs: %q", r.Stderr)
	}
	for _, want := range says {
		if !strings.Contains(line, want) {
			t.Errorf("%q does not say %q", line, want)
		}
	}
	if r.Stdout != "" {
		t.Errorf("wrote to standard output: %q", r.Stdout)
	}
	t.Log(line)
}

func TestUmountErrors(t *testing.T) {
	dir := t.TempDir()
	checkFailure(t, Command(t, nil, "umount", dir), fail, "not mounted")
	checkFailure(t, Command(t, nil, "umount", "/proc"), fail, "type proc")
	checkFailure(t, Command(t, nil, "stats", dir), fail, "no rdmafs daemon")
	checkFailure(t, Command(t, nil, "frobnicate"), usage, "unknown command")
	checkFailure(t, Command(t, nil, "mount"), usage, "SERVER:/EXPORT")
	checkFailure(t, Command(t, nil, "umount", "-z", dir), usage, "-z", "rdmafs umount --help")
	checkFailure(t, Command(t, nil, "umount", ""), usage, "no name")
	checkFailure(t, Command(t, nil, "status", "/proc"), fail, "type proc")
}

// closedPort is a port of 127.0.0.1 without a listener.
func closedPort(t *testing.T) int {
	ln := listen(t)
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	return port
}

// silentPort takes connections and says nothing.
func silentPort(t *testing.T) int {
	return serve(t, func(c net.Conn) {
		buf := make([]byte, 1024)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
		}
	})
}

// garbagePort answers whatever it gets with what is no protocol.
func garbagePort(t *testing.T) int {
	return serve(t, func(c net.Conn) {
		buf := make([]byte, 1024)
		if _, err := c.Read(buf); err != nil {
			return
		}
		_, _ = c.Write([]byte(strings.Repeat("HTTP/1.1 400 Bad Request\r\n", 40)))
	})
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// serve runs f on each connection to a port until the test ends.
func serve(t *testing.T, f func(net.Conn)) int {
	ln := listen(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(c)
			}()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	return ln.Addr().(*net.TCPAddr).Port
}
