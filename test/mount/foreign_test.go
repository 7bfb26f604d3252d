package mount

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// insideDirectory is set in the process that TestForeignChangeKeepsDirectories
// starts in a directory of the mount.
const insideDirectory = "RDMAFS_TEST_INSIDE_DIRECTORY"

// TestForeignChangeKeepsDirectories: another client changes a directory above
// the working directory of a process and above a mount point. Both stay what
// they are: getcwd goes on working and the file system stays mounted. Names
// that do lead elsewhere now are seen to do so.
func TestForeignChangeKeepsDirectories(t *testing.T) {
	if os.Getenv(insideDirectory) != "" {
		sayDirectory(t)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a tmpfs")
	}
	s := startServer(t, serverOptions{})
	// Believed for so long that only a notification can end it.
	a, b := s.mount(t, "rdma", "actimeo=3600"), s.mount(t, "tcp", "")
	deep := filepath.Join("one", "two", "three")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(a.Dir, deep), 0o755))
	point := filepath.Join(a.Dir, "one", "two", "tmpfs")
	must(os.Mkdir(point, 0o755))
	must(unix.Mount("none", point, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(point, unix.MNT_DETACH) })
	ask := startInside(t, filepath.Join(a.Dir, deep))

	wrong := 0
	check := func(round int) {
		t.Helper()
		if got, want := ask(), filepath.Join(a.Dir, deep); got != want {
			wrong++
			t.Logf("round %d: getcwd gives %q, not %q", round, got, want)
		}
		if m, ok, err := mounttable.Find(point); err != nil || !ok || m.Type != "tmpfs" {
			wrong++
			t.Logf("round %d: on the mount point lies %+v, %v, %v", round, m, ok, err)
		}
	}
	for round := range 30 {
		for _, dir := range []string{".", "one", "one/two", deep} {
			name := filepath.Join(dir, fmt.Sprintf("entry-%d", round))
			must(os.WriteFile(filepath.Join(b.Dir, name), nil, 0o644))
			// Opening the directory shows the change to the mount, which then
			// invalidates the entry in the kernel. A name that did not exist shows
			// that this has happened.
			awaitForeign(t, name+" is there", func() bool {
				_, err := os.ReadDir(filepath.Join(a.Dir, dir))
				must(err)
				_, err = os.Stat(filepath.Join(a.Dir, name))
				_, gone := os.Stat(filepath.Join(a.Dir, dir, fmt.Sprintf("entry-%d", round+1)))
				return err == nil && errors.Is(gone, fs.ErrNotExist)
			})
			check(round)
		}
	}

	// What has really gone or been replaced is not believed.
	must(os.Mkdir(filepath.Join(a.Dir, "one", "empty"), 0o755))
	must(os.WriteFile(filepath.Join(a.Dir, "one", "file"), []byte("old"), 0o644))
	must(os.Rename(filepath.Join(b.Dir, "one", "empty"), filepath.Join(b.Dir, "one", "moved")))
	must(os.WriteFile(filepath.Join(b.Dir, "one", "new"), []byte("newer"), 0o644))
	must(os.Rename(filepath.Join(b.Dir, "one", "new"), filepath.Join(b.Dir, "one", "file")))
	_, err := os.ReadDir(filepath.Join(a.Dir, "one"))
	must(err)
	awaitForeign(t, "the moved directory is gone", func() bool {
		_, err := os.Stat(filepath.Join(a.Dir, "one", "empty"))
		return errors.Is(err, fs.ErrNotExist)
	})
	awaitForeign(t, "the new file is seen", func() bool {
		got, err := os.ReadFile(filepath.Join(a.Dir, "one", "file"))
		return err == nil && string(got) == "newer"
	})
	check(30)
	if wrong > 0 {
		t.Errorf("%d times a working directory or a mount was lost", wrong)
	}
}

// awaitForeign returns when what is true.
func awaitForeign(t *testing.T, name string, what func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !what(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", name)
		}
	}
}

// startInside starts a process in dir; the result asks it where it is.
func startInside(t *testing.T, dir string) (ask func() string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestForeignChangeKeepsDirectories$")
	cmd.Env = append(os.Environ(), insideDirectory+"=1")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	answers := bufio.NewReader(out)
	return func() string {
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := answers.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSuffix(answer, "\n")
	}
}

// sayDirectory answers each line with what the kernel says is the working
// directory.
func sayDirectory(t *testing.T) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		b := make([]byte, 4096)
		n, err := unix.Getcwd(b)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(strings.TrimRight(string(b[:n]), "\x00"))
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}
