//go:build guest

package interop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/mount"
	"github.com/rdmafs/rdmafs/test/posix"
)

// This file runs in the guest, on the machine of the server: TestInGuest starts
// it there.

// asWriter: no process in the guest is a writer.
func asWriter() {}

// here is the machine that the tests run on.
type here struct{}

func (here) Check(ctx context.Context, command string) (string, error) {
	cmd := exec.CommandContext(ctx, "/bin/bash", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w\n%s", command, err, out.Bytes())
	}
	return out.String(), nil
}

func (h here) RestartServer(ctx context.Context) error {
	_, err := h.Check(ctx, "guest unserve && guest serve 8 && guest end_grace")
	return err
}

func insideWords(proto string) string {
	if proto == "tcp" {
		return "proto=tcp"
	}
	return "proto=rdma,rdma=" + proto
}

func source() string { return os.Getenv(addressEnv) + ":/export" }

// insideWays are those through an adapter.
var insideWays = []way{
	{"ibv", "ibv", everyday, rows{inline: true, read: true, write: true, reply: true}},
	{"ibv-inline1024", "ibv", "inline=1024", rows{inline: true, read: true, write: true, reply: true}},
	{"ibv-noddp", "ibv", "noddp", rows{inline: true, zero: true, reply: true}},
	{"ibv-noddp-inline1024", "ibv", "noddp,inline=1024", rows{inline: true, zero: true, reply: true}},
}

// TestInsideRXE mounts through rxe, which has memory windows: the server
// invalidates their keys.
func TestInsideRXE(t *testing.T) {
	for _, w := range insideWays {
		t.Run(w.name, func(t *testing.T) {
			if stats := w.run(t, here{}, source(), insideWords); stats.RemoteInvalidations == 0 {
				t.Error("the server invalidated no key")
			}
		})
	}
}

// TestInsideSIW mounts through siw, which has none: keys are those of regions,
// and no peer may invalidate them.
func TestInsideSIW(t *testing.T) {
	for _, w := range insideWays {
		t.Run(w.name, func(t *testing.T) {
			if stats := w.run(t, here{}, source(), insideWords); stats.RemoteInvalidations+stats.LocalInvalidations > 0 {
				t.Errorf("%d keys of regions were invalidated by the server, %d here", stats.RemoteInvalidations, stats.LocalInvalidations)
			}
		})
	}
}

// TestInsideUser mounts as an ordinary user, who may lock 8 MiB of memory: with
// smaller buffers, and a note about it.
func TestInsideUser(t *testing.T) {
	as := func(args ...string) string { return strings.Join(append(slices.Clone(knfsd.AsTester), args...), " ") }
	dir := guest(t, here{}, as("mktemp", "-d"))
	m := mount.Mount(t, source(), mount.Options{Words: insideWords("ibv"), Wrapper: knfsd.AsTester, Dir: dir})
	if want := "the limit on locked memory is 8 MiB: 5 MiB of buffers in place of 128"; !strings.Contains(m.Said, want) {
		t.Errorf("mounting said %q, without %q", m.Said, want)
	}
	t.Log(strings.TrimSpace(m.Said))
	// More at once than the buffers hold, of many files and of one.
	guest(t, here{}, as("cp", "-r", mount.SourceTree(t), dir+"/user"))
	guest(t, here{}, "head -c 50000000 /dev/urandom >/tmp/large && chmod 644 /tmp/large")
	guest(t, here{}, as("cp", "/tmp/large", dir+"/user/large"))
	m.Umount(t)
	guest(t, here{}, "cmp /tmp/large /export/user/large && rm /export/user/large")
	mount.SameTree(t, "/export/user", mount.SourceTree(t))
	guest(t, here{}, "rm -r /export/user /tmp/large "+dir)
}

// TestInsidePosix runs the file system suite through the adapter, as whoever runs it.
func TestInsidePosix(t *testing.T) {
	m := mount.Mount(t, source(), mount.Options{Words: insideWords("ibv")})
	posix.Run(t, m.Dir)
}
