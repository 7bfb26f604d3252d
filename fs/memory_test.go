package fs

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// everyName is a server that has every name and keeps none.
type everyName struct {
	nfsclient.Client
	files uint64
}

func (s *everyName) attr(kind nfsclient.FileType, id uint64) nfsclient.Attr {
	t := time.Unix(1_700_000_000, int64(id))
	return nfsclient.Attr{Type: kind, Mode: 0o644, Nlink: 1, UID: 1000, GID: 1000, Size: id, Used: id,
		FSID: 1, FileID: id, Atime: t, Mtime: t, Ctime: t, Change: nfsclient.ChangeByTimes(id, t, t)}
}

func (s *everyName) Root() (nfsclient.Handle, nfsclient.Attr) {
	return "root", s.attr(nfsclient.Directory, 1)
}

func (s *everyName) Watch(nfsclient.Watcher) {}

func (s *everyName) Info() nfsclient.Info { return nfsclient.Info{ReadMax: 1 << 20, WriteMax: 1 << 20} }

// Lookup finds a file with a handle of 36 bytes, as of knfsd's.
func (s *everyName) Lookup(_ context.Context, _ nfsclient.Cred, dir nfsclient.Handle, name string) (nfsclient.Found, error) {
	s.files++
	a, d := s.attr(nfsclient.Regular, s.files+1), s.attr(nfsclient.Directory, 1)
	return nfsclient.Found{Handle: nfsclient.Handle(fmt.Sprintf("%-24s%012d", "file", s.files)), Attr: &a, Dir: &d}, nil
}

func (s *everyName) Access(_ context.Context, _ nfsclient.Cred, _ nfsclient.Handle, want nfsclient.AccessMask) (nfsclient.AccessMask, *nfsclient.Attr, error) {
	a := s.attr(nfsclient.Directory, 1)
	return want, &a, nil
}

// ReadDir lists the next 350 names without end.
func (s *everyName) ReadDir(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, from nfsclient.DirPos, _ bool) (p nfsclient.DirPart, err error) {
	for k := range uint64(350) {
		name := strings.Clone(fmt.Sprintf("name-%07d", from.Cookie+k))
		f, err := s.Lookup(ctx, cr, dir, name)
		if err != nil {
			return p, err
		}
		p.Entries = append(p.Entries, nfsclient.Dirent{FileID: f.Attr.FileID, Name: name, Cookie: from.Cookie + k + 1, Handle: f.Handle, Attr: f.Attr})
		p.Dir = f.Dir
	}
	return p, nil
}

// newEveryName is a cache of such a server.
func newEveryName(t testing.TB) *cache.Cache {
	t.Helper()
	pool, err := bufpool.New(bufpool.Config{Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cache.New(&everyName{}, pool, cache.Config{RSize: 1 << 16, WSize: 1 << 16,
		AcRegMin: time.Hour, AcRegMax: time.Hour, AcDirMin: time.Hour, AcDirMax: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// heap is the bytes in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMemoryOfNames: what a name and the attributes of its file cost, up to the
// number by which the kernel knows it, whether it was looked up or listed.
func TestMemoryOfNames(t *testing.T) {
	const names, most = 100_000, 400
	cr := nfsclient.Cred{UID: 1000, GID: 1000}
	looked := func(c *cache.Cache, found func(cache.Entry)) {
		for k := range names {
			// The kernel's requests carry each name in a buffer of its own.
			e, err := c.Lookup(context.Background(), cr, c.Root(), strings.Clone(fmt.Sprintf("name-%07d", k)))
			if err != nil {
				t.Fatal(err)
			}
			found(e)
		}
	}
	listed := func(c *cache.Cache, found func(cache.Entry)) {
		// The right to look names up comes with the first of them.
		if e, err := c.Lookup(context.Background(), cr, c.Root(), "name"); err != nil {
			t.Fatal(err)
		} else {
			c.Forget(e.Inode, 1)
		}
		d, err := c.OpenDir(context.Background(), cr, c.Root())
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for all, off := 0, uint64(0); all < names; {
			part, err := d.Next(context.Background(), off)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range part {
				if off = e.Off; all == names || e.Name == "." || e.Name == ".." {
					continue
				}
				known, ok := d.Known(e.Name)
				if !ok {
					t.Fatalf("%s was listed, and is not known", e.Name)
				}
				found(known)
				all++
			}
		}
	}
	for how, learn := range map[string]func(*cache.Cache, func(cache.Entry)){"looked up": looked, "listed": listed} {
		t.Run(how, func(t *testing.T) {
			c := newEveryName(t)
			table := newNodes(c)
			all := make([]uint64, 0, names)
			before := heap()
			learn(c, func(e cache.Entry) { all = append(all, table.take(e.Inode)) })
			each := (heap() - before) / uint64(len(all))
			t.Logf("%d bytes a name, of %d", each, len(all))
			if each > most {
				t.Errorf("a name costs %d bytes, more than %d", each, most)
			}
			for _, id := range all {
				table.forget(id, 1)
			}
		})
	}
}

func (s *everyName) GetAttr(context.Context, nfsclient.Cred, nfsclient.Handle) (nfsclient.Attr, error) {
	return s.attr(nfsclient.Regular, 1), nil
}
