package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/nfsd"
)

// job is one of the commonest things that programs do, done rpcFiles times, and what it costs by version 3 and 4.2. The table in
// docs/performance.md has these numbers for one time.
type job struct {
	name string
	// before prepares the directory as another machine does; without it the mount makes the directory itself, and mine
	// prepares it. others is what another machine does just before do.
	before, mine, others func(t *testing.T, dir string)
	do                   func(t *testing.T, dir string)
	v3, v42              string
	// linux is what Linux' own client sends with 4.2: TestInsideLinuxJobs.
	linux string
}

// deep is a path of names that are not known.
const deep = "a/b/c/d"

// rewritten is a file with other content, and other times whatever the clock's grain.
func rewritten(path string) error {
	if err := os.WriteFile(path, []byte("other"), 0o644); err != nil {
		return err
	}
	return os.Chtimes(path, time.Time{}, time.Now().Add(time.Second))
}

func makeDeep(t *testing.T, dir string) {
	t.Helper()
	each(func(path string) error {
		if err := os.MkdirAll(filepath.Join(path, deep), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(path, deep, "file"), nil, 0o644)
	})(t, dir)
}

var jobs = []job{
	{name: "create, write 4 KiB, close; own directory", do: each(opened(unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644, strings.Repeat("x", 4096))),
		v3: "CREATE 8, LOOKUP 1, WRITE 8", v42: "CLOSE 8, LOOKUP 1, OPEN 8, WRITE 8",
		linux: "ACCESS 1, CLOSE 8, OPEN 8, SETATTR 8, WRITE 8"},
	{name: "create, write 4 KiB, close; another's", before: func(*testing.T, string) {}, do: each(opened(unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644, strings.Repeat("x", 4096))),
		v3: "CREATE 8, LOOKUP 8, WRITE 8", v42: "CLOSE 8, LOOKUP 8, OPEN 8, WRITE 8",
		linux: "ACCESS 1, CLOSE 8, OPEN 8, SETATTR 8, WRITE 8"},
	{name: "open, read, close; cold", before: makeFiles, do: each(opened(unix.O_RDONLY, 0, "small")),
		v3: "ACCESS 8, LOOKUP 8, READ 8", v42: "CLOSE 8, LOOKUP 8, OPEN 8, READ 8",
		linux: "ACCESS 1, CLOSE 8, OPEN 8, READ 8, READ_PLUS 1"},
	{name: "open, read, close; again", before: makeFiles, mine: each(opened(unix.O_RDONLY, 0, "small")), do: each(opened(unix.O_RDONLY, 0, "small")),
		v3: "GETATTR 8", v42: "CLOSE 8, OPEN 8",
		linux: "CLOSE 8, OPEN_NOATTR 8"},
	{name: "open, read, close; changed by another", before: makeFiles, mine: each(opened(unix.O_RDONLY, 0, "small")), others: each(rewritten),
		do: each(opened(unix.O_RDONLY, 0, "other")),
		// Twice: the kernel asks for the attributes between, to learn of the other size.
		v3: "ACCESS 8, GETATTR 16, READ 8", v42: "CLOSE 16, OPEN 16, READ 8",
		linux: "CLOSE 8, OPEN_NOATTR 8, READ 8"},
	{name: "open with O_TRUNC, write, close; again", before: makeFiles, mine: each(opened(unix.O_RDONLY, 0, "small")),
		do: each(opened(unix.O_WRONLY|unix.O_TRUNC, 0, "other")),
		v3: "GETATTR 8, SETATTR 8, WRITE 8", v42: "CLOSE 8, OPEN 8, SETATTR 8, WRITE 8",
		linux: "CLOSE 8, OPEN_NOATTR 8, SETATTR 8, WRITE 8"},
	{name: "stat of f/a/b/c/d/file, all unknown", before: makeDeep, do: each(func(path string) error {
		return unix.Lstat(filepath.Join(path, deep, "file"), new(unix.Stat_t))
	}),
		v3: "LOOKUP 48", v42: "LOOKUP 48",
		linux: "ACCESS 41, LOOKUP 48"},
	{name: "ls -l", before: makeFiles, do: tool("ls", "-l"),
		v3: "ACCESS 2, READDIRPLUS 1", v42: "ACCESS 2, READDIR 1",
		linux: "ACCESS 1, GETATTR 1, READDIR 1"},
	{name: "rename; own directory", mine: makeFiles, do: each(func(path string) error { return unix.Rename(path, path+"new") }),
		v3: "RENAME 8", v42: "RENAME 8",
		linux: "RENAME 8"},
	{name: "mkdir; own directory", do: each(func(path string) error { return unix.Mkdir(path, 0o755) }),
		v3: "LOOKUP 1, MKDIR 8", v42: "CREATE 8, LOOKUP 1",
		linux: "ACCESS 1, CREATE 8"},
	{name: "unlink; own directory", mine: makeFiles, do: each(unix.Unlink),
		v3: "REMOVE 8", v42: "REMOVE 8",
		linux: "REMOVE 8"},
}

// calls are how many there were of each procedure, or operation of version 4.
type calls map[string]uint64

// count does the jobs on a mount at top of what the server has at export, and returns the calls of each. sofar are all calls of
// the mount.
func count(t *testing.T, top, export string, sofar func() calls) (all []string) {
	t.Helper()
	for n, j := range jobs {
		dir := filepath.Join(top, fmt.Sprint(n))
		if j.before == nil {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Lstat(dir, new(unix.Stat_t)); err != nil {
			t.Fatal(err)
		}
		if j.mine != nil {
			j.mine(t, dir)
		}
		if j.others != nil {
			j.others(t, filepath.Join(export, fmt.Sprint(n)))
		}
		before := whenClosed(t, sofar)
		j.do(t, dir)
		// Files are closed at the server behind the program's back.
		after := whenClosed(t, sofar)
		var got []string
		total := uint64(0)
		for name, n := range after {
			if n -= before[name]; n > 0 && name != "SEQUENCE" { // which renews the lease
				got = append(got, fmt.Sprintf("%s %d", name, n))
				total += n
			}
		}
		slices.Sort(got)
		all = append(all, strings.Join(got, ", "))
		t.Logf("%-45s %3d  %s", j.name, total, all[n])
	}
	return all
}

// whenClosed are the calls when each OPEN was followed by a CLOSE, both of which are counted.
func whenClosed(t *testing.T, sofar func() calls) (now calls) {
	t.Helper()
	awaitThat(t, "files are closed", func() bool {
		now = sofar()
		return now["OPEN"]+now["OPEN_NOATTR"] == now["CLOSE"]
	})
	return now
}

// callsOf are those of a mount of rdmafs.
func callsOf(t *testing.T, m *Mounted) func() calls {
	return func() calls {
		all := calls{}
		for _, p := range reports(t, m)[0].Procedures {
			if p.Program == "NFS" {
				all[p.Procedure] = p.Calls
			}
		}
		return all
	}
}

// prepare makes at the server what the jobs want to find there.
func prepare(t *testing.T, export string) {
	t.Helper()
	for n, j := range jobs {
		if j.before == nil {
			continue
		}
		dir := filepath.Join(export, fmt.Sprint(n))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		j.before(t, dir)
	}
}

// TestJobs counts the calls of the commonest jobs by version 3 and 4.2. The kernel may drop pages and names at any
// time, and the calls that fetch them again are counted, too. So a job with other counts is tried again.
func TestJobs(t *testing.T) {
	for _, vers := range []string{"3", "4.2"} {
		t.Run(vers, func(t *testing.T) {
			var differ []string
			for range 3 {
				if differ = countJobs(t, vers); len(differ) == 0 {
					return
				}
				t.Logf("again, as these differ: %q", differ)
			}
			t.Error("they differ each time")
		})
	}
}

// countJobs returns the jobs whose calls are not those of the table.
func countJobs(t *testing.T, vers string) (differ []string) {
	s := startServer(t, serverOptions{versions: nfsd.V3 | nfsd.V42})
	prepare(t, s.export)
	m := s.mount(t, "tcp", "actimeo=600,vers="+vers)
	provesMarks(t, s, m.Dir)
	for n, got := range count(t, m.Dir, s.export, callsOf(t, m)) {
		want := jobs[n].v3
		if vers != "3" {
			want = jobs[n].v42
		}
		if got != want {
			differ = append(differ, fmt.Sprintf("%s: %s, want %s", jobs[n].name, got, want))
		}
	}
	return differ
}
