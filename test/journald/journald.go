// Package journald runs a real systemd-journald for a test, in a mount namespace of its own
// with an empty /run, so that neither the machine's journal nor its /run is touched.
//
// A Journal owns one process tree; the test's end joins it. No locks.
package journald

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Program is where systemd has it.
const Program = "/lib/systemd/systemd-journald"

// setup makes the namespace and starts journald; the commands that follow are behind it in the same
// shell, once there is a line to read.
const setup = `
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/journald.conf.d /run/log/journal
printf '[Journal]\nStorage=volatile\nAudit=no\nReadKMsg=no\nForwardToWall=no\nForwardToConsole=no\nRateLimitBurst=0\n' >/run/systemd/journald.conf.d/test.conf
NOTIFY_SOCKET=$1 "$2" </dev/null >/dev/null 2>&1 &
daemon=$!
trap 'kill $daemon; wait $daemon || true' EXIT
shift 2
read go
`

// Run runs a shell's commands beside a journald, and returns what they have printed; $1 and so on are args.
// The test is skipped where there is no journald, or this is not root.
func Run(t *testing.T, commands string, args ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes a mount namespace")
	}
	for _, need := range []string{Program, "journalctl", "unshare"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Skipf("needs systemd: %v", err)
		}
	}
	if _, err := os.Stat("/etc/machine-id"); err != nil {
		t.Skipf("journald needs it: %v", err)
	}
	// A short path, for a socket.
	dir, err := os.MkdirTemp("", "journald")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ready := filepath.Join(dir, "ready")
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: ready, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer notify.Close()

	line := append([]string{"-m", "--propagation", "private", "bash", "-euc", setup + commands, "bash", ready, Program}, args...)
	cmd := exec.Command("unshare", line...)
	cmd.Stderr = os.Stderr
	var out strings.Builder
	cmd.Stdout = &out
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		notify.Close() // nobody will be ready any more
		ended <- err
	}()
	if err := awaitReady(notify); err != nil {
		in.Close()
		t.Fatalf("journald: %v, %v", err, <-ended)
	}
	fmt.Fprintln(in, "go")
	in.Close()
	if err := <-ended; err != nil {
		t.Fatalf("%v; it has printed %s", err, out.String())
	}
	return out.String()
}

// awaitReady waits for READY=1 (sd_notify(3)).
func awaitReady(c *net.UnixConn) error {
	b := make([]byte, 4096)
	for {
		n, err := c.Read(b)
		if err != nil {
			return err
		}
		for l := range strings.SplitSeq(string(b[:n]), "\n") {
			if l == "READY=1" {
				return nil
			}
		}
	}
}

// Record is an entry of the journal by its fields: strings, or lists of numbers where a value is not plain text.
type Record map[string]any

// Records are those that journalctl -o json has printed.
func Records(t *testing.T, out string) (all []Record) {
	t.Helper()
	s := bufio.NewScanner(strings.NewReader(out))
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		var r Record
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Fatalf("%v in %.200s", err, s.Text())
		}
		all = append(all, r)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
