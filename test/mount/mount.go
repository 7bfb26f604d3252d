package mount

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/test/ringtest"
	"github.com/rdmafs/rdmafs/transport"
)

// A machine without Go is given what this package would make or find.
const (
	// BinaryEnv names the rdmafs command.
	BinaryEnv = "RDMAFS_TEST_BINARY"
	// TreeEnv names a tree to copy.
	TreeEnv = "RDMAFS_TEST_TREE"
	// WordsEnv has further mount options for every mount of the tests, such as
	// fuse=ring.
	WordsEnv = "RDMAFS_TEST_WORDS"
)

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rdmafs-bin.")
	if err != nil {
		return "", err
	}
	// Ordinary users run it too.
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "rdmafs")
	args := []string{"build", "-o", bin}
	env := append(os.Environ(), "CGO_ENABLED=0")
	if raceBuild() {
		args = append(args, "-race")
		env = append(os.Environ(), "CGO_ENABLED=1")
		// The daemons inherit it. Reports are found at the end even if the
		// daemon's standard error is lost.
		if err := os.Setenv("GORACE", "log_path="+filepath.Join(dir, "race")); err != nil {
			return "", err
		}
		// Written by daemons of ordinary users too.
		if err := os.Chmod(dir, 0o1777); err != nil {
			return "", err
		}
	}
	cmd := exec.Command("go", append(args, "github.com/rdmafs/rdmafs/cmd/rdmafs")...)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return bin, nil
})

// Binary is the rdmafs command: BinaryEnv, or built on first use. RemoveBinary
// deletes it.
func Binary(t testing.TB) string {
	t.Helper()
	if bin := os.Getenv(BinaryEnv); bin != "" {
		return bin
	}
	bin, err := build()
	if err != nil {
		t.Fatalf("build rdmafs: %v", err)
	}
	return bin
}

// raceBuild reports whether the daemons are built with the race detector:
// RDMAFS_TEST_RACE=1 asks for it.
func raceBuild() bool { return os.Getenv("RDMAFS_TEST_RACE") == "1" }

// RemoveBinary deletes what Binary built, and returns what the race detector
// said in the daemons, if they were built with it. Call it at the end of
// TestMain.
func RemoveBinary() (races string) {
	if os.Getenv(BinaryEnv) != "" {
		return ""
	}
	bin, err := build()
	if err != nil {
		return ""
	}
	dir := filepath.Dir(bin)
	reports, _ := filepath.Glob(filepath.Join(dir, "race.*"))
	for _, name := range reports {
		b, err := os.ReadFile(name)
		races += fmt.Sprintf("%s%v\n", b, err)
	}
	os.RemoveAll(dir)
	return races
}

// Result is what a finished command left.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Command runs rdmafs with args, through a wrapper such as setpriv if any. If it mounts with
// fuse=ring, FUSE over io_uring is enabled until the test ends, or the test is skipped if that cannot
// be had.
func Command(t testing.TB, wrapper []string, args ...string) Result {
	t.Helper()
	if len(args) > 0 && args[0] == "mount" && strings.Contains(args[len(args)-1], "fuse=ring") {
		ringtest.On(t)
	}
	line := append(append([]string(nil), wrapper...), Binary(t))
	return execute(t, append(line, args...))
}

// execute runs a command.
func execute(t testing.TB, line []string) Result {
	t.Helper()
	cmd := exec.Command(line[0], line[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return Result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// Mounted is a mount made by Mount.
type Mounted struct {
	Dir string
	// Said is what mounting wrote to standard error.
	Said    string
	wrapper []string
}

// Options says how Mount mounts.
type Options struct {
	// Words is for -o. Without a version of NFS among them it is that of WordsEnv, or 3, whatever else the server has.
	Words string
	// Wrapper is a command that runs rdmafs, such as setpriv with its options.
	Wrapper []string
	// Dir is the mount point; a temporary one when empty.
	Dir string
}

// Mount mounts source and unmounts it when the test ends.
func Mount(t testing.TB, source string, o Options) *Mounted {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	m := &Mounted{Dir: o.Dir, wrapper: o.Wrapper}
	words := o.Words
	if !strings.Contains(words, "vers=") {
		words = strings.TrimSuffix(version()+","+words, ",")
	}
	args := []string{"mount", source, o.Dir, "-o", words}
	r := Command(t, o.Wrapper, args...)
	if r.Code != 0 {
		t.Fatalf("rdmafs %s: exit code %d: %s", strings.Join(args, " "), r.Code, r.Stderr)
	}
	m.Said = r.Stderr
	t.Cleanup(func() {
		if _, mounted, err := mounttable.Find(o.Dir); err == nil && mounted {
			m.Umount(t)
		}
		if _, mounted, _ := mounttable.Find(o.Dir); mounted {
			// The test has failed already; it must leave nothing behind nevertheless.
			Command(t, m.wrapper, "umount", "-f", o.Dir)
		}
	})
	return m
}

// version is the word for the version of mounts that name none.
func version() string {
	for word := range strings.SplitSeq(os.Getenv(WordsEnv), ",") {
		if strings.HasPrefix(word, "vers=") {
			return word
		}
	}
	return "vers=3"
}

// Umount unmounts and fails the test if that fails.
func (m *Mounted) Umount(t testing.TB) {
	t.Helper()
	if r := Command(t, m.wrapper, "umount", m.Dir); r.Code != 0 {
		t.Errorf("umount: exit code %d: %s", r.Code, r.Stderr)
	}
}

// Stats is the mount's transport counters.
func (m *Mounted) Stats(t testing.TB) transport.Stats {
	t.Helper()
	r := Command(t, m.wrapper, "stats", "--json", m.Dir)
	var report struct{ Calls transport.Stats }
	if r.Code != 0 {
		t.Fatalf("stats: exit code %d: %s", r.Code, r.Stderr)
	}
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil {
		t.Fatalf("stats: %v in %q", err, r.Stdout)
	}
	return report.Calls
}
