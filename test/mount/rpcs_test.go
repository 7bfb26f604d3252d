package mount

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// rpcFiles is how often each row of TestRPCs does its work, or how many files it finds.
const rpcFiles = 8

// rpcRow is a workload and what it may cost.
type rpcRow struct {
	name string
	// before prepares the directory as another machine does, at the server; with own
	// the mount itself makes the directory, and mine prepares it through the mount.
	before, mine func(t *testing.T, dir string)
	own          bool
	do           func(t *testing.T, dir string)
	// linux is what the Linux client needs in all, want the calls by procedure. more of
	// them are LOOKUPs that the Linux client leaves out when it creates, and FUSE does not.
	linux, more int
	want        string
}

// each does something with rpcFiles names in dir.
func each(do func(path string) error) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		for k := range rpcFiles {
			if err := do(filepath.Join(dir, fmt.Sprint("f", k))); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// opened opens a file, writes or reads what there is to, and closes it.
func opened(flags int, mode uint32, data string) func(path string) error {
	return func(path string) error {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, mode)
		if err != nil {
			return err
		}
		switch {
		case data == "":
		case flags&unix.O_ACCMODE == unix.O_RDONLY:
			_, err = unix.Read(fd, make([]byte, len(data)))
		default:
			_, err = unix.Write(fd, []byte(data))
		}
		if cerr := unix.Close(fd); err == nil {
			err = cerr
		}
		return err
	}
}

// tool runs a command in dir, with its first argument found by PATH.
func tool(args ...string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		// Not by Cmd.Dir: this process serves dir, and while the child changes to it before it is another program, the
		// collector may stop the server.
		cmd := exec.Command("env", append([]string{"-C", dir}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
	}
}

func lstats(t *testing.T, dir string) {
	t.Helper()
	each(func(path string) error { return unix.Lstat(path, new(unix.Stat_t)) })(t, dir)
}

// makeTree makes directories a and a/b with rpcFiles files each.
func makeTree(t *testing.T, dir string) {
	t.Helper()
	for _, sub := range []string{"a", "a/b"} {
		sub = filepath.Join(dir, sub)
		if err := os.Mkdir(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		makeFiles(t, sub)
	}
}

var makeFiles = each(opened(unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644, "small"))

// provesMarks makes files until one that must not exist costs no SETATTR: the mount then
// knows that the server keeps the marks by which files are known again, and its clock.
func provesMarks(t *testing.T, s *server, dir string) {
	t.Helper()
	for k := 0; ; k++ {
		before := setAttrs(s)
		if err := opened(unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644, "")(filepath.Join(dir, fmt.Sprint("mark", k))); err != nil {
			t.Fatal(err)
		}
		if setAttrs(s) == before {
			return
		}
		if k > 100 {
			t.Fatal("each exclusive create costs a SETATTR")
		}
	}
}

// setAttrs is how often the server has set attributes, by any version.
func setAttrs(s *server) uint64 {
	now := s.Stats()
	return now.Procs["SETATTR"] + now.Operations["SETATTR"]
}

// TestRPCs: how many calls the server gets for what programs do, by procedure, and that
// they are no more than the Linux client's: those count one ACCESS of a directory in which
// something is made, a GETATTR for each directory that is opened again, and attributes
// that have not expired.
func TestRPCs(t *testing.T) {
	const creating = unix.O_CREAT | unix.O_WRONLY
	archive := filepath.Join(t.TempDir(), "tree.tar")
	tree := t.TempDir()
	makeTree(t, tree)
	tool("tar", "-cf", archive, "a")(t, tree)
	rows := []rpcRow{
		{name: "open read close, cold", before: makeFiles, do: each(opened(unix.O_RDONLY, 0, "small")), linux: 3 * rpcFiles, want: "ACCESS 8, LOOKUP 8, READ 8"},
		{name: "open read close, again", before: makeFiles, mine: each(opened(unix.O_RDONLY, 0, "small")), do: each(opened(unix.O_RDONLY, 0, "small")), linux: rpcFiles, want: "GETATTR 8"},
		{name: "stat, cold", before: makeFiles, do: lstats, linux: rpcFiles, want: "LOOKUP 8"},
		{name: "create O_EXCL", do: each(opened(creating|unix.O_EXCL, 0o644, "")), linux: 2*rpcFiles + 1, want: "CREATE 8, LOOKUP 8"},
		{name: "create O_EXCL", own: true, do: each(opened(creating|unix.O_EXCL, 0o644, "")), linux: 2*rpcFiles + 1, want: "CREATE 8, LOOKUP 1"},
		{name: "create O_EXCL, mode 0444", own: true, do: each(opened(creating|unix.O_EXCL, 0o444, "")), linux: 2*rpcFiles + 1, want: "CREATE 8, LOOKUP 1"},
		{name: "create, mode 0444", own: true, do: each(opened(creating, 0o444, "")), linux: 2*rpcFiles + 1, want: "CREATE 8, LOOKUP 1"},
		{name: "create O_EXCL, write 4 KiB", do: each(opened(creating|unix.O_EXCL, 0o644, strings.Repeat("x", 4096))), linux: 3*rpcFiles + 1, want: "CREATE 8, LOOKUP 8, WRITE 8"},
		{name: "create O_EXCL, write 4 KiB", own: true, do: each(opened(creating|unix.O_EXCL, 0o644, strings.Repeat("x", 4096))), linux: 3*rpcFiles + 1, want: "CREATE 8, LOOKUP 1, WRITE 8"},
		{name: "create O_TRUNC, write", do: each(opened(creating|unix.O_TRUNC, 0o644, "small")), linux: 3*rpcFiles + 1, want: "CREATE 8, LOOKUP 8, WRITE 8"},
		{name: "create O_TRUNC, write", own: true, do: each(opened(creating|unix.O_TRUNC, 0o644, "small")), linux: 3*rpcFiles + 1, want: "CREATE 8, LOOKUP 1, WRITE 8"},
		{name: "write anew O_TRUNC", own: true, mine: makeFiles, do: each(opened(creating|unix.O_TRUNC, 0o644, "small")), linux: 4 * rpcFiles, want: "ACCESS 8, SETATTR 8, WRITE 8"},
		{name: "mkdir", do: each(func(path string) error { return unix.Mkdir(path, 0o755) }), linux: rpcFiles + 1, more: rpcFiles - 1, want: "LOOKUP 8, MKDIR 8"},
		{name: "mkdir", own: true, do: each(func(path string) error { return unix.Mkdir(path, 0o755) }), linux: rpcFiles + 1, want: "LOOKUP 1, MKDIR 8"},
		{name: "rmdir", own: true, mine: each(func(path string) error { return unix.Mkdir(path, 0o755) }), do: each(unix.Rmdir), linux: rpcFiles, want: "RMDIR 8"},
		{name: "rename", before: makeFiles, mine: lstats, do: each(func(path string) error { return unix.Rename(path, path+"new") }), linux: rpcFiles + 1, more: rpcFiles - 1, want: "LOOKUP 8, RENAME 8"},
		{name: "rename", own: true, mine: makeFiles, do: each(func(path string) error { return unix.Rename(path, path+"new") }), linux: rpcFiles + 1, want: "RENAME 8"},
		{name: "unlink", own: true, mine: makeFiles, do: each(unix.Unlink), linux: rpcFiles, want: "REMOVE 8"},
		{name: "unlink, cold", before: makeFiles, do: each(unix.Unlink), linux: 2 * rpcFiles, want: "LOOKUP 8, REMOVE 8"},
		{name: "symlink", own: true, do: each(func(path string) error { return unix.Symlink("target", path) }), linux: rpcFiles + 1, want: "LOOKUP 1, SYMLINK 8"},
		{name: "link", own: true, mine: makeFiles, do: each(func(path string) error { return unix.Link(path, path+"new") }), linux: rpcFiles, want: "LINK 8"},
		{name: "chmod", own: true, mine: makeFiles, do: each(func(path string) error { return unix.Chmod(path, 0o600) }), linux: rpcFiles, want: "SETATTR 8"},
		{name: "untar", own: true, do: tool("tar", "-xf", archive), linux: 5*(2*rpcFiles+2) + 1, want: "ACCESS 1, CREATE 16, LOOKUP 2, MKDIR 2, SETATTR 54, WRITE 16"},
		{name: "rm -rf, cold", before: makeTree, do: tool("rm", "-rf", "a"), linux: 3 * (2*rpcFiles + 2) / 2, want: "ACCESS 5, FSSTAT 1, LOOKUP 1, READDIRPLUS 2, REMOVE 16, RMDIR 2"},
		{name: "rm -rf", own: true, mine: makeTree, do: tool("rm", "-rf", "a"), linux: 3 * (2*rpcFiles + 2) / 2, want: "ACCESS 4, FSSTAT 1, READDIRPLUS 2, REMOVE 16, RMDIR 2"},
		{name: "ls", before: makeFiles, do: tool("ls"), linux: 3, want: "ACCESS 2, READDIRPLUS 1"},
		{name: "ls -l", before: makeFiles, do: tool("ls", "-l"), linux: 3, want: "ACCESS 2, READDIRPLUS 1"},
		{name: "ls -l", own: true, mine: makeFiles, do: tool("ls", "-l"), linux: 3, want: "ACCESS 1, READDIRPLUS 1"},
		{name: "find", before: makeTree, do: tool("find", "."), linux: 10, want: "ACCESS 5, FSSTAT 1, READDIRPLUS 3"},
		{name: "lstat of all, after ls", before: makeFiles, mine: tool("ls"), do: lstats, linux: rpcFiles, want: ""},
	}
	s := startServer(t, serverOptions{})
	for n, r := range rows {
		if !r.own {
			dir := filepath.Join(s.export, fmt.Sprint(n))
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if r.before != nil {
				r.before(t, dir)
			}
		}
	}
	m := s.mount(t, "tcp", "actimeo=600")
	provesMarks(t, s, m.Dir)
	for n, r := range rows {
		dir, whose := filepath.Join(m.Dir, fmt.Sprint(n)), "another's"
		if r.own {
			whose = "own"
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Lstat(dir, new(unix.Stat_t)); err != nil {
			t.Fatal(err)
		}
		if r.mine != nil {
			r.mine(t, dir)
		}
		before := s.Stats().Procs
		r.do(t, dir)
		var got []string
		total := 0
		for proc, c := range s.Stats().Procs {
			if c -= before[proc]; c > 0 {
				got = append(got, fmt.Sprintf("%s %d", proc, c))
				total += int(c)
			}
		}
		slices.Sort(got)
		all := strings.Join(got, ", ")
		t.Logf("%-28s %-9s %3d (Linux %3d)  %s", r.name, whose, total, r.linux, all)
		if total > r.linux+r.more {
			t.Errorf("%s, in %s directory: %d calls, and the Linux client makes %d", r.name, whose, total, r.linux)
		}
		if all != r.want {
			t.Errorf("%s, in %s directory: %s, want %s", r.name, whose, all, r.want)
		}
	}
}
