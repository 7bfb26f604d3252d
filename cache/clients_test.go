package cache

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// machine is a client with a kernel that keeps a file's pages for as long as
// Open allows it, and is never told anything else.
type machine struct {
	c     *Cache
	pages []byte
	have  bool
}

func (m *machine) open(t *testing.T, i *Inode) *File {
	f, keep, err := m.c.Open(ctx, alice, i, rw)
	check(t, err)
	if !keep {
		m.have = false
	}
	return f
}

func (m *machine) read(t *testing.T, f *File) []byte {
	if !m.have {
		m.pages, m.have = read(t, f, 64<<10, 0), true
	}
	return m.pages
}

// What one machine has closed, the next one to open sees, though both believe
// attributes for an hour and keep pages.
func TestModelCloseToOpen(t *testing.T) {
	eachSeed(t, 4, false, func(t *testing.T, seed uint64) {
		eachProtocol(t, func(t *testing.T, cl nfsclient.Client, srv *fake) { testModelCloseToOpen(t, seed, cl, srv) })
	})
}

func testModelCloseToOpen(t *testing.T, seed uint64, cl nfsclient.Client, srv *fake) {
	r := rand.New(rand.NewPCG(seed, 1))
	srv.hook = jitter(rand.New(rand.NewPCG(seed, 2)))
	srv.foreign("a", nil)
	var all []*machine
	var inodes []*Inode
	for range 3 {
		cfg := testConfig()
		cfg.WSize, cfg.RSize = 4096, 8192
		c := newCache(t, cl, cfg)
		e := must[Entry](t)(c.Lookup(ctx, alice, c.Root(), "a"))
		defer c.Forget(e.Inode, 1)
		all, inodes = append(all, &machine{c: c}), append(inodes, e.Inode)
	}
	var m model
	for n := range 150 {
		k := r.IntN(len(all))
		who := all[k]
		f := who.open(t, inodes[k])
		if r.IntN(3) > 0 {
			if got := who.read(t, f); !bytes.Equal(got, m.b) {
				t.Fatalf("step %d: machine %d reads %d bytes, want %d; first difference at %d", n, k, len(got), len(m.b), differ(got, m.b))
			}
		}
		for range r.IntN(4) {
			p := make([]byte, 1+r.IntN(9000))
			for j := range p {
				p[j] = byte(r.Uint32())
			}
			off := r.IntN(30_000)
			write(t, f, p, int64(off))
			m.write(p, off)
			if who.have {
				kernel := model{who.pages}
				kernel.write(p, off)
				who.pages = kernel.b
			}
		}
		if r.IntN(10) == 0 {
			size := uint64(r.IntN(30_000))
			_, _, err := f.SetAttr(ctx, alice, nfsclient.SetAttr{Size: &size})
			check(t, err)
			m.truncate(int(size))
			if who.have {
				who.pages = resize(who.pages, size)
			}
		}
		if who.have && !bytes.Equal(who.pages, m.b) {
			t.Fatalf("step %d: machine %d's pages differ at %d", n, k, differ(who.pages, m.b))
		}
		check(t, f.Flush(ctx))
		f.Release()
	}
}

// Several users of one directory, each with names of their own: what one has
// done is what it sees next, however replies overtake each other.
func TestModelNames(t *testing.T) {
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	eachSeed(t, rounds, true, func(t *testing.T, seed uint64) {
		srv := newFake(t)
		srv.part = 7
		srv.coarse = 1 + int(seed%3)
		srv.hook = jitter(rand.New(rand.NewPCG(seed, 5)))
		cfg := testConfig()
		cfg.AcDirMin, cfg.AcDirMax = 2*time.Millisecond, time.Hour
		c := newCache(t, srv, cfg)
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() { runNames(t, c, rand.New(rand.NewPCG(seed, uint64(10+g))), fmt.Sprintf("u%d-", g)) })
		}
		wg.Wait()
	})
}

func runNames(t *testing.T, c *Cache, r *rand.Rand, prefix string) {
	have := map[string]uint64{} // inode numbers
	pick := func() string { return prefix + fmt.Sprint(r.IntN(6)) }
	for range 150 {
		name := pick()
		ino, exists := have[name]
		var err error
		switch op := r.IntN(10); {
		case op < 3:
			var e Entry
			var f *File
			e, f, err = c.Create(ctx, alice, c.Root(), name, nfsclient.SetAttr{}, true, rw)
			if exists {
				if status(err) != nfsclient.ErrExist {
					t.Errorf("create of existing %s: %v", name, err)
				}
				err = nil
				break
			}
			if err == nil {
				have[name] = e.Inode.Ino()
				f.Release()
				c.Forget(e.Inode, 1)
			}
		case op < 5:
			err = c.Unlink(ctx, alice, c.Root(), name)
			if !exists && status(err) == nfsclient.ErrNoEnt {
				err = nil
			}
			delete(have, name)
		case op < 6:
			to := pick()
			err = c.Rename(ctx, alice, c.Root(), name, c.Root(), to)
			if !exists && status(err) == nfsclient.ErrNoEnt {
				err = nil
			} else if to != name {
				delete(have, name)
				have[to] = ino
			}
		case op < 7:
			seen := map[string]int{}
			var d *Dir
			if d, err = c.OpenDir(ctx, alice, c.Root()); err != nil {
				break
			}
			for off := uint64(0); ; {
				var l []Dirent
				if l, err = d.Next(ctx, off); err != nil || len(l) == 0 {
					break
				}
				for _, e := range l {
					seen[e.Name]++
					off = e.Off
				}
			}
			d.Close()
			for name := range have {
				if seen[name] != 1 {
					t.Errorf("listing has %s %d times", name, seen[name])
				}
			}
		default:
			var e Entry
			e, err = c.Lookup(ctx, alice, c.Root(), name)
			switch {
			case err == nil && (!exists || e.Inode.Ino() != ino):
				t.Errorf("%s is inode %d, want %d (exists: %v)", name, e.Inode.Ino(), ino, exists)
			case !exists && status(err) == nfsclient.ErrNoEnt:
				err = nil
			}
			if e.Inode != nil {
				c.Forget(e.Inode, 1)
			}
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
	}
}
