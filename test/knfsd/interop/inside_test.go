//go:build guest

package interop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// This file runs in the guest, on the machine of the server: GoTest in
// guest_test.go starts it there.

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
	_, err := h.Check(ctx, "guest unserve && guest serve 8")
	return err
}

// addressEnv is the server's address in the guest: devices are not on loopback.
const addressEnv = "RDMAFS_INTEROP_ADDR"

func insideWords(proto string) string {
	if proto == "tcp" {
		return "proto=tcp"
	}
	return "proto=rdma,rdma=" + proto
}

func TestInsideMount(t *testing.T) {
	for _, w := range []way{
		{"iwarp", "iwarp", "", rows{inline: true, read: true, write: true, reply: true}},
		{"iwarp-inline1024", "iwarp", "inline=1024", rows{inline: true, read: true, write: true, reply: true}},
		{"iwarp-noddp", "iwarp", "noddp", rows{inline: true, zero: true, reply: true}},
		{"tcp", "tcp", "", rows{}},
	} {
		t.Run(w.name, func(t *testing.T) { w.run(t, here{}, os.Getenv(addressEnv)+":/export", insideWords) })
	}
}
