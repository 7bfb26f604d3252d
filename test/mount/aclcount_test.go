package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/acls"
)

// TestRequestsWithACLs: what access control lists cost in FUSE requests. The kernel asks for
// security.capability before it lets a file be written to, and then no more until it is
// given attributes again; no request of that kind costs a call. With noacl it asks once.
func TestRequestsWithACLs(t *testing.T) {
	const files = 5
	s := startServer(t, serverOptions{acl: true})
	for _, c := range []struct {
		words string
		asked int    // for security.capability
		read  counts // when all lists are read
		calls uint64 // GETACLs
	}{
		// One call, of the export's root: what is made below a directory that has no
		// default list has none either.
		{"actimeo=600", files, counts{"GETXATTR": files}, 1},
		{"actimeo=600,noacl", 1, counts{}, 0},
	} {
		r := countRequests(t, s.source(), s.words("tcp", c.words))
		before := s.Stats().Procs["GETACL"]
		dir := filepath.Join(r.dir, c.words)
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		r.take(t)
		for k := range files {
			fd, err := unix.Open(filepath.Join(dir, fmt.Sprint("f", k)), unix.O_WRONLY|unix.O_CREAT, 0o666)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if _, err := unix.Write(fd, make([]byte, 4096)); err != nil {
					t.Error(err)
				}
			}
			if err := unix.Close(fd); err != nil {
				t.Error(err)
			}
		}
		r.want(t, c.words+": making files with three writes", counts{"LOOKUP": files, "CREATE": files, "WRITE": 3 * files, "FLUSH": files, "GETXATTR": c.asked})
		for k := range files {
			if _, err := acls.Get(filepath.Join(dir, fmt.Sprint("f", k)), acls.Access); err != unix.ENODATA && err != unix.EOPNOTSUPP {
				t.Error(err)
			}
		}
		r.want(t, c.words+": reading the lists", c.read)
		if calls := s.Stats().Procs["GETACL"] - before; calls != c.calls {
			t.Errorf("%s: %d GETACLs, want %d", c.words, calls, c.calls)
		}
	}
}

// TestListingWithACLs: lists are asked for once a file, and again when attributes have
// changed.
func TestListingWithACLs(t *testing.T) {
	acls.Need(t)
	const files = 5
	s := startServer(t, serverOptions{acl: true})
	for k := range files {
		if err := os.WriteFile(filepath.Join(s.export, fmt.Sprint("f", k)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := s.mount(t, "rdma", "actimeo=600")
	list := func(want uint64) {
		t.Helper()
		before := s.Stats().Procs["GETACL"]
		entries, err := os.ReadDir(m.Dir)
		if err != nil || len(entries) != files {
			t.Fatalf("%d entries, %v", len(entries), err)
		}
		for _, e := range entries {
			if _, err := acls.Get(filepath.Join(m.Dir, e.Name()), acls.Access); err != nil && err != unix.ENODATA {
				t.Error(err)
			}
		}
		if got := s.Stats().Procs["GETACL"] - before; got != want {
			t.Errorf("%d GETACLs, want %d", got, want)
		}
	}
	list(files)
	list(0)
	if err := acls.Set(filepath.Join(m.Dir, "f1"), acls.Access, acls.Users(1000, 6)); err != nil {
		t.Fatal(err)
	}
	list(1)
	list(0)
	if err := acls.Set(filepath.Join(s.export, "f2"), acls.Access, acls.Users(1000, 6)); err != nil {
		t.Fatal(err)
	}
	if err := acls.Set(filepath.Join(m.Dir, "f2"), acls.Access, acls.Users(1001, 6)); err != nil {
		t.Fatal(err)
	}
	list(1)
}
