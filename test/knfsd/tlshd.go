package knfsd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// TLSHD puts tlshd into the guest, below TLSHDDir: the daemon that makes the handshakes of Linux' NFS server and client for
// RPC-with-TLS. It is that of Debian 13, downloaded once.
func (g *Guest) TLSHD(ctx context.Context) error {
	dir, err := scripts()
	if err != nil {
		return err
	}
	var out, log bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(dir), "tlshd", "build"))
	cmd.Stdout, cmd.Stderr = &out, &log
	endWithUs(cmd)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("knfsd: tlshd: %w\n%s", err, tail(log.Bytes(), 4<<10))
	}
	shared := filepath.Join(g.Share(), "tlshd")
	if err := os.CopyFS(shared, os.DirFS(strings.TrimSpace(out.String()))); err != nil {
		return err
	}
	_, err = g.Check(ctx, "mkdir -p "+filepath.Dir(TLSHDDir)+" && cp -r /share/tlshd "+TLSHDDir+" && chmod 755 "+TLSHDDir+"/run "+TLSHDDir+"/lib/ld-linux-x86-64.so.2 "+TLSHDDir+"/tlshd && modprobe tls")
	if err != nil {
		return err
	}
	return os.RemoveAll(shared)
}

// TLSHDDir is where tlshd is in the guest; run starts it.
const TLSHDDir = "/opt/tlshd"
