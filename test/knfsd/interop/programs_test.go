//go:build knfsd

package interop

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/mount"
)

// tapWays are the ways to a guest with both devices on a tap network.
var tapWays = []struct{ name, words string }{
	{"tcp", "proto=tcp"},
	{"iwarp", "proto=rdma,rdma=iwarp"},
	{"roce", "proto=rdma,rdma=roce"},
}

var programNames = flag.String("programs", "", "the scripts of test/programs/check that TestProgramsOnLinuxServer runs, separated by blanks; all if empty")

// TestProgramsOnLinuxServer runs the scripts of test/programs on two mounts of the Linux
// server, over each way.
func TestProgramsOnLinuxServer(t *testing.T) {
	knfsd.NeedAll(t)
	g := knfsd.StartTest(t, knfsd.Config{Network: knfsd.Tap, DiskMiB: 4096})
	for _, way := range tapWays {
		t.Run(way.name, func(t *testing.T) {
			if way.name == "roce" {
				t.Skip("two mounts over RoCE need two addresses of this host, and the runner gives both the same options")
			}
			guest(t, g, "cd /export && rm -rf -- *")
			programs(t, g, way.words)
		})
	}
}

// verdict is a line of the runner, with what a failed check wrote indented below it.
var verdict = regexp.MustCompile(`(?m)^(PASS|SKIP|FAIL) given-([a-z0-9]+)(.*\n(?:    .*\n)*)`)

// programs runs the scripts with these mount options and shows each as a test.
func programs(t *testing.T, g *knfsd.Guest, words string) {
	runner, err := filepath.Abs("../../programs/run")
	if err != nil {
		t.Fatal(err)
	}
	// A guard against hangs: the runner bounds each script by itself.
	const limit = time.Hour
	args := append(inNamespace(g), runner, "-source", g.GuestAddr().String()+":/export", "-words", words)
	args = append(args, strings.Fields(*programNames)...)
	work := t.TempDir()
	if err := os.Chmod(filepath.Dir(work), 0o755); err != nil {
		t.Fatal(err)
	}
	umountWithGuest(t, g, func() []string {
		mounts, _ := filepath.Glob(filepath.Join(work, "rdmafs-programs.*", "[ab]"))
		return mounts
	})
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	// This process is isolated: its mounts must be the runner's.
	cmd.Env = append(os.Environ(), "TMPDIR="+work, "RDMAFS_PROGRAMS_ISOLATED=1", mount.BinaryEnv+"="+mount.Binary(t))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	var out bytes.Buffer
	// As it comes: it takes minutes, and what is slow must be told from what hangs.
	cmd.Stdout = io.MultiWriter(&out, t.Output())
	cmd.Stderr = cmd.Stdout
	ended := cmd.Run()
	failed := false
	for _, m := range verdict.FindAllStringSubmatch(out.String(), -1) {
		t.Run(m[2], func(t *testing.T) {
			switch said := strings.TrimSpace(m[3]); m[1] {
			case "FAIL":
				failed = true
				t.Error(said)
			case "SKIP":
				t.Skip(said)
			default:
				t.Log(said)
			}
		})
	}
	if ended != nil && !failed {
		t.Errorf("the runner: %v\n%s", ended, out.String())
	}
	if out.Len() == 0 {
		t.Error("no program was run")
	}
}
