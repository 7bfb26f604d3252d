package mount

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/must"
	"github.com/rdmafs/rdmafs/test/nfsd"
)

// oddTree makes a tree with what copies get wrong.
func oddTree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "odd")
	must.Do(t, os.Mkdir(dir, 0o750))
	put := func(name string, size int, mode os.FileMode) {
		t.Helper()
		b := make([]byte, size)
		random := rand.NewChaCha8([32]byte{byte(size)})
		random.Read(b)
		must.Do(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
		must.Do(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	put("empty", 0, 0o644)
	put("one piece", 1<<20, 0o600)
	put("a piece and a byte", 1<<20+1, 0o640)
	put("many pieces", 37<<20+123, 0o444)
	put("new\nline \\ and \xff", 100, 0o755)
	put("set-id", 10, 0o755|os.ModeSetgid)
	must.Do(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	put("sub/in", 5000, 0o644)
	must.Do(t, os.Mkdir(filepath.Join(dir, "sub", "none"), 0o700))
	must.Do(t, os.Symlink("../many pieces", filepath.Join(dir, "sub", "link")))
	must.Do(t, os.Symlink("/nowhere", filepath.Join(dir, "dangling")))
	must.Do(t, os.Link(filepath.Join(dir, "empty"), filepath.Join(dir, "sub", "empty too")))
	must.Do(t, os.Link(filepath.Join(dir, "sub/in"), filepath.Join(dir, "zz in too")))
	hole := must.Get[*os.File](t)(os.Create(filepath.Join(dir, "holes")))
	must.Get[int](t)(hole.WriteAt([]byte("end"), 9<<20))
	must.Do(t, hole.Close())
	old := time.Date(2001, 2, 3, 4, 5, 6, 789000000, time.UTC)
	for _, name := range []string{"empty", "many pieces", "sub/in", "sub", "."} {
		must.Do(t, os.Chtimes(filepath.Join(dir, name), old, old))
	}
	return dir
}

// described is a tree as find(1) describes it: names, types, modes, owners, links, sizes and
// times of modification, but those of symbolic links, which are not preserved.
func described(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command("find", ".", "-type", "f", "-printf", `%P\001%y %m %U %G %n %s %T@\002`,
		"-o", "-type", "l", "-printf", `%P\001%y %U %G %l\002`, "-o", "-type", "d", "-printf", `%P\001%y %m %U %G %T@\002`)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("find: %v", err)
	}
	lines := strings.Split(string(out), "\x02")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// filesWays are what the commands that use files without a mount go over.
var filesWays = []struct{ proto, more string }{{"rdma", "rdma=iwarp"}, {"tcp", ""}}

// rdmafs runs a command that uses files and fails unless it ends with a code.
func (s *server) files(t *testing.T, way struct{ proto, more string }, code int, args ...string) Result {
	t.Helper()
	args = append([]string{args[0], "-o", s.words(way.proto, way.more)}, args[1:]...)
	r := Command(t, nil, args...)
	if r.Code != code {
		t.Fatalf("rdmafs %q: exit code %d, not %d: %s", args, r.Code, code, r.Stderr)
	}
	return r
}

// TestFilesCopy: a tree with everything that copies get wrong arrives on the server, and back
// here, as cp -a brings it.
func TestFilesCopy(t *testing.T) {
	odd := oddTree(t)
	oracle := filepath.Join(t.TempDir(), "odd")
	must.Do(t, exec.Command("cp", "-a", odd, oracle).Run())
	for _, way := range filesWays {
		t.Run(way.proto, func(t *testing.T) {
			s := startServer(t, serverOptions{})
			s.files(t, way, 0, "cp", "-a", odd, s.source())
			there := filepath.Join(s.export, "odd")
			SameTree(t, there, oracle)
			same(t, there, oracle)
			here := t.TempDir()
			s.files(t, way, 0, "cp", "-a", s.source()+"/odd", here)
			SameTree(t, filepath.Join(here, "odd"), oracle)
			same(t, filepath.Join(here, "odd"), oracle)
			s.files(t, way, 0, "cp", "-r", s.source()+"/odd", s.source()+"/again")
			SameTree(t, filepath.Join(s.export, "again"), oracle)
			if b := blocks(t, filepath.Join(here, "odd", "holes")); b > 4<<20 {
				t.Errorf("the holes of a file became %d bytes", b)
			}
		})
	}
}

func same(t *testing.T, got, want string) {
	t.Helper()
	if a, b := described(t, got), described(t, want); a != b {
		t.Errorf("%s is\n%q\nand not as cp -a has it,\n%q", got, a, b)
	}
}

func blocks(t *testing.T, name string) int64 {
	t.Helper()
	var st syscall.Stat_t
	must.Do(t, syscall.Stat(name, &st))
	return st.Blocks * 512
}

// TestFilesReplace: a target is replaced when its copy is whole, keeps its mode, and is
// left alone by -n and -u; symbolic links are written through, and other things are not.
func TestFilesReplace(t *testing.T) {
	s := startServer(t, serverOptions{})
	way := filesWays[1]
	here := filepath.Join(t.TempDir(), "f")
	target := filepath.Join(s.export, "f")
	put := func(name, text string) {
		t.Helper()
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	}
	holds := func(name, text string) {
		t.Helper()
		if b := must.Get[[]byte](t)(os.ReadFile(name)); string(b) != text {
			t.Errorf("%s holds %q, not %q", name, b, text)
		}
	}
	put(here, "new")
	put(target, "old")
	must.Do(t, os.Chmod(target, 0o604))
	s.files(t, way, 0, "cp", "-n", here, s.source()+"/f")
	holds(target, "old")
	must.Do(t, os.Chtimes(here, time.Time{}, time.Now().Add(-time.Hour)))
	s.files(t, way, 0, "cp", "-u", here, s.source()+"/f")
	holds(target, "old")
	s.files(t, way, 0, "cp", here, s.source()+"/f")
	holds(target, "new")
	if m := must.Get[os.FileInfo](t)(os.Stat(target)).Mode(); m != 0o604 {
		t.Errorf("the target that was replaced has mode %v", m)
	}
	must.Do(t, os.Symlink("f", filepath.Join(s.export, "link")))
	put(here, "through the link")
	s.files(t, way, 0, "cp", here, s.source()+"/link")
	holds(target, "through the link")
	s.files(t, way, 0, "cp", "--in-place", here, s.source()+"/f")
	r := s.files(t, way, 1, "cp", s.source()+"/f", s.source()+"/link")
	wantIn(t, r.Stderr, "is the same file as")
	holds(target, "through the link")
	must.Do(t, syscall.Mkfifo(filepath.Join(s.export, "pipe"), 0o666))
	wantIn(t, s.files(t, way, 1, "cp", here, s.source()+"/pipe").Stderr, "not a regular file")
	wantIn(t, s.files(t, way, 1, "cp", s.source()+"/f", "/dev/null").Stderr, "not a regular file")
	wantIn(t, s.files(t, way, 1, "cp", s.source(), t.TempDir()).Stderr, "-r copies those")
	wantIn(t, s.files(t, way, 1, "cp", "-r", s.source()+"/", s.source()+"/sub").Stderr, "into itself")
	wantIn(t, s.files(t, way, 1, "cp", here, here, s.source()+"/f").Stderr, "is not a directory")
	wantIn(t, s.files(t, way, 1, "cp", here, here+"2").Stderr, "cp(1)")
	left := must.Get[[]os.DirEntry](t)(os.ReadDir(s.export))
	for _, e := range left {
		if strings.HasSuffix(e.Name(), ".part") {
			t.Errorf("%s was left", e.Name())
		}
	}
}

func wantIn(t *testing.T, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("%q says nothing of %q", text, want)
	}
}

// TestFilesResume: a copy that is killed at any moment is gone on with, from near where it
// was, and never if the source has changed.
func TestFilesResume(t *testing.T) {
	const size = 64 << 20
	var written atomic.Int64
	var stop atomic.Int64 // after how many bytes writes hang
	var once sync.Once
	reached := make(chan struct{})
	s := startServer(t, serverOptions{faults: &nfsd.Faults{Write: func(n int) error {
		if limit := stop.Load(); limit > 0 && written.Load() >= limit {
			once.Do(func() { close(reached) })
			return syscall.EIO
		}
		written.Add(int64(n))
		return nil
	}}})
	way := filesWays[0]
	here := filepath.Join(t.TempDir(), "f")
	b := make([]byte, size)
	random := rand.NewChaCha8([32]byte{1})
	random.Read(b)
	must.Do(t, os.WriteFile(here, b, 0o600))
	stop.Store(48 << 20)
	wantIn(t, s.files(t, way, 1, "cp", "--resume", here, s.source()+"/f").Stderr, "I/O error")
	<-reached
	stop.Store(0)
	if _, err := os.Stat(filepath.Join(s.export, "f")); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("half a copy has the target's name: %v", err)
	}
	before := written.Swap(0)
	s.files(t, way, 0, "cp", "--resume", here, s.source()+"/f")
	if n := written.Load(); n >= size-before/4 {
		t.Errorf("after %d of %d bytes, %d were written anew", before, size, n)
	}
	if !bytes.Equal(must.Get[[]byte](t)(os.ReadFile(filepath.Join(s.export, "f"))), b) {
		t.Error("a copy that was gone on with differs from its source")
	}
	// Another state of the source.
	stop.Store(48 << 20)
	written.Store(0)
	b[0]++
	must.Do(t, os.WriteFile(here, b, 0o600))
	s.files(t, way, 1, "cp", "--resume", here, s.source()+"/f")
	stop.Store(0)
	b[1]++
	must.Do(t, os.WriteFile(here, b, 0o600))
	written.Store(0)
	s.files(t, way, 0, "cp", "--resume", here, s.source()+"/f")
	if n := written.Load(); n != size {
		t.Errorf("%d bytes of a source that had changed were written, not all %d", n, size)
	}
	if !bytes.Equal(must.Get[[]byte](t)(os.ReadFile(filepath.Join(s.export, "f"))), b) {
		t.Error("the copy is not of the source's last state")
	}
}

// TestFilesKilled: a copy is killed while pieces are under way; what it leaves is gone on with,
// and right.
func TestFilesKilled(t *testing.T) {
	const size = 64 << 20
	var written atomic.Int64
	reached := make(chan struct{})
	var once sync.Once
	s := startServer(t, serverOptions{faults: &nfsd.Faults{Write: func(n int) error {
		if written.Add(int64(n)) >= 40<<20 {
			once.Do(func() { close(reached) })
		}
		return nil
	}}})
	here := filepath.Join(t.TempDir(), "f")
	b := make([]byte, size)
	random := rand.NewChaCha8([32]byte{2})
	random.Read(b)
	must.Do(t, os.WriteFile(here, b, 0o600))
	way := filesWays[0]
	cmd := exec.Command(Binary(t), "cp", "--resume", "-o", s.words(way.proto, way.more), here, s.source()+"/f")
	must.Do(t, cmd.Start())
	<-reached
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait()
	s.files(t, way, 0, "cp", "--resume", here, s.source()+"/f")
	if !bytes.Equal(must.Get[[]byte](t)(os.ReadFile(filepath.Join(s.export, "f"))), b) {
		t.Error("a copy that was gone on with differs from its source")
	}
	if left := must.Get[[]os.DirEntry](t)(os.ReadDir(s.export)); len(left) != 1 {
		t.Errorf("the copy has left %v", left)
	}
}

// TestFilesInterrupted: SIGINT ends a copy whose server is silent, with the exit code of a
// command that it ended.
func TestFilesInterrupted(t *testing.T) {
	came := make(chan struct{})
	release := make(chan struct{})
	var once sync.Once
	s := startServer(t, serverOptions{faults: &nfsd.Faults{Write: func(n int) error {
		once.Do(func() { close(came) })
		<-release
		return nil
	}}})
	t.Cleanup(func() { close(release) })
	here := filepath.Join(t.TempDir(), "f")
	must.Do(t, os.WriteFile(here, make([]byte, 1000), 0o600))
	cmd := exec.Command(Binary(t), "cp", "-o", s.words("tcp", ""), here, s.source()+"/f")
	var said bytes.Buffer
	cmd.Stderr = &said
	must.Do(t, cmd.Start())
	<-came
	must.Do(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d", code)
	}
	wantIn(t, said.String(), "interrupted")
}

// TestFilesLook: ls, stat, du, cat and checksum say what ls, stat, du, cat and sha256sum say of
// the directory that is exported.
func TestFilesLook(t *testing.T) {
	for _, way := range filesWays {
		t.Run(way.proto, func(t *testing.T) {
			s := startServer(t, serverOptions{})
			must.Do(t, exec.Command("cp", "-a", oddTree(t), s.export).Run())
			dir := filepath.Join(s.export, "odd")
			system := func(name string, args ...string) string {
				t.Helper()
				cmd := exec.Command(name, args...)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "LC_ALL=C")
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%s %q: %v", name, args, err)
				}
				return string(out)
			}
			compare := func(args []string, want string) {
				t.Helper()
				got := strings.ReplaceAll(s.files(t, way, 0, args...).Stdout, s.source()+"/odd", ".")
				if got != want {
					t.Errorf("rdmafs %q prints\n%s\nin place of\n%s", args, got, want)
				}
			}
			at := s.source() + "/odd"
			compare([]string{"ls", at}, system("ls", "-N"))
			compare([]string{"ls", "-ln", at}, withoutTotal(system("ls", "-lnN")))
			compare([]string{"ls", "-S", at}, system("ls", "-SN"))
			compare([]string{"ls", "-d", at}, ".\n")
			const format = "%n %s %F %a %A %u %g %i %h %X %Y %Z %%"
			for _, name := range []string{"empty", "many pieces", "dangling", "sub", "set-id"} {
				want := strings.Replace(system("stat", "-c", format, name), name, "./"+name, 1)
				compare([]string{"stat", "--format", format, at + "/" + name}, want)
			}
			compare([]string{"du", "--apparent-size", "-a", at + "/sub"}, bySorted(system("du", "--apparent-size", "-a", "./sub")))
			compare([]string{"cat", at + "/many pieces", at + "/sub/in"}, system("cat", "many pieces", "sub/in"))
			sums := filepath.Join(t.TempDir(), "sums")
			must.Do(t, os.WriteFile(sums, []byte(s.files(t, way, 0, "checksum", "--relative", at).Stdout), 0o600))
			system("sha256sum", "--check", "--strict", sums)
			list := system("sh", "-c", "find . -type f -print0 | sort -z | xargs -0 sha512sum")
			must.Do(t, os.WriteFile(sums, []byte(list), 0o600))
			s.files(t, way, 0, "checksum", "--algorithm", "sha512", "--check", sums, at)
			must.Do(t, os.WriteFile(filepath.Join(dir, "sub/in"), []byte("else"), 0o644))
			r := s.files(t, way, 1, "checksum", "--algorithm", "sha512", "--check", sums, at)
			wantIn(t, r.Stdout, "./sub/in: FAILED\n")
			wantIn(t, r.Stdout, "./empty: OK\n")
		})
	}
}

// withoutTotal is the output of ls -l without its first line.
func withoutTotal(out string) string {
	_, rest, _ := strings.Cut(out, "\n")
	return rest
}

// bySorted is the output of du with the names of each directory in order: that of readdir
// is the file system's.
func bySorted(out string) string {
	lines := strings.SplitAfter(strings.TrimSuffix(out, "\n"), "\n")
	last := lines[len(lines)-1] + "\n"
	rest := lines[:len(lines)-1]
	slices.SortFunc(rest, func(a, b string) int {
		_, a, _ = strings.Cut(a, "\t")
		_, b, _ = strings.Cut(b, "\t")
		return strings.Compare(a, b)
	})
	return strings.Join(rest, "") + last
}

// TestFilesChange: mkdir, rm and sync of two trees.
func TestFilesChange(t *testing.T) {
	for _, way := range filesWays {
		t.Run(way.proto, func(t *testing.T) {
			s := startServer(t, serverOptions{})
			s.files(t, way, 1, "mkdir", s.source()+"/a/b/c")
			s.files(t, way, 0, "mkdir", "-p", "-m", "2701", s.source()+"/a/b/c")
			if m := must.Get[os.FileInfo](t)(os.Stat(filepath.Join(s.export, "a/b/c"))).Mode(); m != os.ModeDir|os.ModeSetgid|0o701 {
				t.Errorf("mkdir -m 2701 made %v", m)
			}
			s.files(t, way, 0, "mkdir", "-p", s.source()+"/a/b/c")
			for k := range 300 {
				must.Do(t, os.WriteFile(filepath.Join(s.export, "a", fmt.Sprint(k)), nil, 0o600))
			}
			wantIn(t, s.files(t, way, 1, "rm", s.source()+"/a").Stderr, "-r removes those")
			wantIn(t, s.files(t, way, 1, "rm", "-rf", s.source()).Stderr, "root of the export")
			s.files(t, way, 0, "rm", "-r", s.source()+"/a")
			checkEmpty(t, "the export after rm -r", s.export)
			s.files(t, way, 1, "rm", s.source()+"/a")
			s.files(t, way, 0, "rm", "-f", s.source()+"/a")

			odd := oddTree(t)
			s.files(t, way, 0, "sync", odd, s.source()+"/copy")
			there := filepath.Join(s.export, "copy")
			same(t, there, odd)
			if out := s.files(t, way, 0, "sync", "-v", odd, s.source()+"/copy").Stdout; out != "" {
				t.Errorf("a second sync copies %q", out)
			}
			must.Do(t, os.WriteFile(filepath.Join(there, "extra"), nil, 0o600))
			must.Do(t, os.MkdirAll(filepath.Join(there, "more/of/it"), 0o700))
			must.Do(t, os.WriteFile(filepath.Join(odd, "sub/in"), []byte("changed"), 0o644))
			wantIn(t, s.files(t, way, 0, "sync", "--dry-run", "--delete", odd, s.source()+"/copy").Stdout, "deleted copy/extra")
			must.Get[os.FileInfo](t)(os.Stat(filepath.Join(there, "extra")))
			s.files(t, way, 0, "sync", "--delete", odd, s.source()+"/copy")
			SameTree(t, there, odd)
			// Contents alone differ.
			name := filepath.Join(there, "many pieces")
			old := must.Get[os.FileInfo](t)(os.Stat(name)).ModTime()
			must.Do(t, os.Chmod(name, 0o600))
			f := must.Get[*os.File](t)(os.OpenFile(name, os.O_WRONLY, 0))
			must.Get[int](t)(f.WriteAt([]byte("?"), 20<<20))
			must.Do(t, f.Close())
			must.Do(t, os.Chtimes(name, old, old))
			s.files(t, way, 0, "sync", "--checksum", odd, s.source()+"/copy")
			SameTree(t, there, odd)
		})
	}
}

// TestFilesFindExport: an operand is in the longest export that holds it, and an error names
// the operand as it was given.
func TestFilesFindExport(t *testing.T) {
	s := startServer(t, serverOptions{})
	must.Do(t, os.MkdirAll(filepath.Join(s.export, "a/b"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(s.export, "a/b/f"), []byte("deep"), 0o644))
	way := filesWays[1]
	if out := s.files(t, way, 0, "cat", s.source()+"/a/../a/b/f").Stdout; out != "deep" {
		t.Errorf("cat prints %q", out)
	}
	r := s.files(t, way, 1, "cat", s.source()+"/a/none", s.source()+"/a/b/f")
	if r.Stdout != "deep" {
		t.Errorf("an error kept what else was asked for from being printed: %q", r.Stdout)
	}
	wantIn(t, r.Stderr, s.source()+"/a/none: no such file or directory")
	wantIn(t, s.files(t, way, 1, "ls", s.tcp.Addr().String()+":/else").Stderr, "/else")
	wantIn(t, s.files(t, way, 1, "ls", "/tmp").Stderr, "is not SERVER:/PATH")
}
