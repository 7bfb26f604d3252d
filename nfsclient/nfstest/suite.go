package nfstest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Dial mounts the export that is to be tested. It must be writable for the
// user whom Run names.
type Dial func(t *testing.T) nfsclient.Client

// Run runs the suite as the user of this process.
func Run(t *testing.T, dial Dial) {
	RunAs(t, nfsclient.Cred{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}, dial)
}

// RunAs runs the suite as a user. What only root may do is tested if the user is
// root and the server treats it as root.
func RunAs(t *testing.T, cr nfsclient.Cred, dial Dial) {
	for _, c := range []struct {
		name string
		f    func(*env)
	}{
		{"Mount", testMount}, {"StatFS", testStatFS}, {"Lookup", testLookup}, {"Names", testNames},
		{"Attributes", testAttributes}, {"Times", testTimes}, {"Truncate", testTruncate}, {"Access", testAccess},
		{"Permissions", testPermissions},
		{"ReadWrite", testReadWrite}, {"EndOfFile", testEndOfFile}, {"Sparse", testSparse}, {"Vectors", testVectors},
		{"Large", testLarge}, {"Commit", testCommit}, {"DataOfOtherTypes", testDataOfOtherTypes},
		{"Create", testCreate}, {"CreateExclusive", testCreateExclusive}, {"Mkdir", testMkdir}, {"Remove", testRemove},
		{"Rename", testRename}, {"Link", testLink}, {"Symlink", testSymlink}, {"Mknod", testMknod}, {"Devices", testDevices},
		{"ReadDirEmpty", testReadDirEmpty}, {"ReadDir", testReadDir},
		{"ReadDirResume", testReadDirResume}, {"Stale", testStale}, {"BadHandle", testBadHandle},
		{"Canceled", testCanceled}, {"Concurrent", testConcurrent},
	} {
		t.Run(c.name, func(t *testing.T) { c.f(newEnv(t, cr, dial)) })
	}
}

const arenaSize = 8 << 20

// env is a mounted client with a directory and memory to test in.
type env struct {
	*testing.T
	ctx   context.Context
	c     nfsclient.Client
	cr    nfsclient.Cred
	dir   nfsclient.Handle
	arena *mem.Arena
}

func newEnv(t *testing.T, cr nfsclient.Cred, dial Dial) *env {
	t.Helper()
	e := &env{T: t, ctx: t.Context(), c: dial(t), cr: cr}
	t.Cleanup(func() {
		if err := e.c.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	var err error
	if e.arena, err = mem.NewArena(arenaSize); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.arena.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := e.c.Register(e.arena); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.c.Unregister(e.arena); err != nil {
			t.Error(err)
		}
	})
	root, _ := e.c.Root()
	name := fmt.Sprintf("nfstest-%016x", rand.Uint64())
	m, err := e.c.Mkdir(e.ctx, cr, root, name, nfsclient.SetAttr{Mode: ptr(uint32(0o755))})
	if err != nil {
		t.Fatal(err)
	}
	e.dir = m.Handle
	t.Cleanup(func() {
		e.ctx = context.Background()
		e.removeAll(e.dir)
		if _, err := e.c.Rmdir(e.ctx, cr, root, name); err != nil {
			t.Errorf("removing what the test left: %v", err)
		}
	})
	return e
}

func ptr[T any](v T) *T { return &v }

func (e *env) check(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// status asserts that err is one of these statuses.
func (e *env) status(what string, err error, want ...nfsclient.Status) {
	e.Helper()
	s, ok := nfsclient.StatusOf(err)
	if ok {
		for _, w := range want {
			if s == w {
				return
			}
		}
	}
	e.Errorf("%s: got %v, want one of %v", what, err, want)
}

func (e *env) create(name string) nfsclient.Handle {
	e.Helper()
	m, err := e.c.Create(e.ctx, e.cr, e.dir, name, nfsclient.SetAttr{Mode: ptr(uint32(0o644))}, false, 0)
	e.check(err)
	return m.Handle
}

func (e *env) mkdir(name string) nfsclient.Handle {
	e.Helper()
	m, err := e.c.Mkdir(e.ctx, e.cr, e.dir, name, nfsclient.SetAttr{Mode: ptr(uint32(0o755))})
	e.check(err)
	return m.Handle
}

func (e *env) attr(h nfsclient.Handle) nfsclient.Attr {
	e.Helper()
	a, err := e.c.GetAttr(e.ctx, e.cr, h)
	e.check(err)
	return a
}

// write writes all of b.
func (e *env) write(h nfsclient.Handle, off uint64, b []byte, how nfsclient.Stable) {
	e.Helper()
	for len(b) > 0 {
		v := mem.Vec{e.arena.Seg(0, min(len(b), e.c.Info().WriteMax, arenaSize))}
		v.CopyIn(0, b)
		r, err := e.c.Write(e.ctx, e.cr, h, nil, off, v, how)
		e.check(err)
		if r.N <= 0 || r.N > len(b) || r.Committed < how {
			e.Fatalf("WRITE: %+v", r)
		}
		b, off = b[r.N:], off+uint64(r.N)
	}
}

// read reads n bytes, or those before the end of the file, and reports whether it
// has reached the end.
func (e *env) read(h nfsclient.Handle, off uint64, n int) (b []byte, eof bool) {
	e.Helper()
	for len(b) < n && !eof {
		v := mem.Vec{e.arena.Seg(0, min(n-len(b), e.c.Info().ReadMax, arenaSize))}
		r, err := e.c.Read(e.ctx, e.cr, h, nil, off, v)
		e.check(err)
		if r.N == 0 && !r.EOF {
			e.Fatal("READ: no data and no end of file")
		}
		p := make([]byte, r.N)
		v.CopyOut(0, p)
		b, off, eof = append(b, p...), off+uint64(r.N), r.EOF
	}
	return b, eof
}

func (e *env) wantData(h nfsclient.Handle, off uint64, want []byte) {
	e.Helper()
	got, _ := e.read(h, off, len(want))
	if !bytes.Equal(got, want) {
		at := 0
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		e.Errorf("%d bytes from %d: got %d bytes, which differ at byte %d", len(want), off, len(got), at)
	}
}

// pattern is n bytes that depend on offset and seed.
func pattern(n int, seed uint64) []byte {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(n), byte(n >> 8), byte(n >> 16)})
	b := make([]byte, n)
	_, _ = r.Read(b) // never fails
	return b
}

// list reads a whole directory, "." and ".." left out.
func (e *env) list(dir nfsclient.Handle, plus bool) map[string]nfsclient.Dirent {
	e.Helper()
	out := map[string]nfsclient.Dirent{}
	for pos := (nfsclient.DirPos{}); ; {
		p, err := e.c.ReadDir(e.ctx, e.cr, dir, pos, plus)
		e.check(err)
		for _, d := range p.Entries {
			if d.Name == "." || d.Name == ".." {
				continue
			}
			if _, twice := out[d.Name]; twice {
				e.Fatalf("entry %q listed twice", d.Name)
			}
			out[d.Name] = d
		}
		if p.EOF {
			return out
		}
		if len(p.Entries) == 0 {
			e.Fatal("a part with neither entries nor end")
		}
		pos = nfsclient.DirPos{Cookie: p.Entries[len(p.Entries)-1].Cookie, Verifier: p.Verifier}
	}
}

func (e *env) removeAll(dir nfsclient.Handle) {
	for name := range e.list(dir, false) {
		_, err := e.c.Remove(e.ctx, e.cr, dir, name)
		if err == nil {
			continue
		}
		f, err := e.c.Lookup(e.ctx, e.cr, dir, name)
		if err != nil {
			e.Error(err)
			continue
		}
		e.removeAll(f.Handle)
		if _, err := e.c.Rmdir(e.ctx, e.cr, dir, name); err != nil {
			e.Error(err)
		}
	}
}
