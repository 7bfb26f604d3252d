package cache

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// unruly is a server that crashes, delays, reorders, and cuts reads and writes
// short, as r decides.
func unruly(t *testing.T, r *rand.Rand) *fake {
	f := newFake(t)
	f.noPre, f.coarse = r.IntN(3) == 0, 1+r.IntN(4)
	f.fileSync = r.IntN(6) == 0
	var mu sync.Mutex
	dice := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	f.hook = func(op string, done bool) error {
		if dice(40) == 0 {
			f.crash()
		}
		if dice(4) == 0 {
			time.Sleep(time.Duration(dice(300)) * time.Microsecond)
		}
		return nil
	}
	f.cut = func(n int) int {
		if n > 1 && dice(8) == 0 {
			return 1 + dice(n-1)
		}
		return n
	}
	return f
}

func smallConfig(r *rand.Rand) Config {
	cfg := testConfig()
	cfg.RSize, cfg.WSize = 4096<<r.IntN(4), 4096<<r.IntN(4)
	cfg.ReadAhead = []int{0, 16 << 10, 256 << 10}[r.IntN(3)]
	cfg.MaxDirty = 64 << 10 << r.IntN(4)
	cfg.WriteDelay = time.Duration(1+r.IntN(20)) * time.Millisecond
	cfg.NoAC = r.IntN(8) == 0
	return cfg
}

// model is what a file must hold.
type model struct{ b []byte }

func (m *model) write(p []byte, off int) {
	if end := off + len(p); end > len(m.b) {
		m.b = append(m.b, make([]byte, end-len(m.b))...)
	}
	copy(m.b[off:], p)
}

func (m *model) truncate(n int) { m.b = resize(m.b, uint64(n)) }

func (m *model) at(off, n int) []byte {
	off = min(off, len(m.b))
	return m.b[off:min(off+n, len(m.b))]
}

// Whatever one user does to one file, through several openings, reads give
// what was written, and what fsync or close has acknowledged is on disk.
func TestModelSequential(t *testing.T) {
	rounds := 16
	if testing.Short() {
		rounds = 8
	}
	eachSeed(t, rounds, true, func(t *testing.T, seed uint64) {
		runModel(t, rand.New(rand.NewPCG(seed, 1)))
	})
}

func runModel(t *testing.T, r *rand.Rand) {
	srv := unruly(t, rand.New(rand.NewPCG(r.Uint64(), 2)))
	c := newCache(t, srv, smallConfig(r))
	const span = 200 << 10
	files := []*File{create(t, c, "a")}
	i := files[0].i
	i.refs.Add(1)
	defer i.unpin()
	var m model
	onDisk := func(what string) {
		if got := srv.content("a"); !bytes.Equal(got, m.b) {
			t.Fatalf("after %s the disk has %d bytes, want %d; first difference at %d", what, len(got), len(m.b), differ(got, m.b))
		}
	}
	for range 250 {
		n := r.IntN(len(files))
		f := files[n]
		off, size := r.IntN(span), 1+r.IntN(20<<10)
		if r.IntN(3) == 0 {
			off, size = off&^4095, 4096
		}
		switch op := r.IntN(100); {
		case op < 35:
			p := make([]byte, size)
			for k := range p {
				p[k] = byte(r.Uint32())
			}
			write(t, f, p, int64(off))
			m.write(p, off)
		case op < 45: // a stream
			p := make([]byte, 3<<10)
			for range r.IntN(20) {
				p[0], p[len(p)-1] = byte(r.Uint32()), byte(r.Uint32())
				write(t, f, p, int64(off))
				m.write(p, off)
				off += len(p)
			}
		case op < 75:
			if got, want := read(t, f, size, int64(off)), m.at(off, size); !bytes.Equal(got, want) {
				t.Fatalf("read of %d at %d: %d bytes, want %d; first difference at %d", size, off, len(got), len(want), off+differ(got, want))
			}
		case op < 80: // a stream
			for range r.IntN(10) {
				if got, want := read(t, f, 40<<10, int64(off)), m.at(off, 40<<10); !bytes.Equal(got, want) {
					t.Fatalf("stream at %d: %d bytes, want %d; first difference at %d", off, len(got), len(want), off+differ(got, want))
				}
				off += 40 << 10
			}
		case op < 85:
			check(t, f.Fsync(ctx))
			onDisk("fsync")
		case op < 89:
			size := uint64(r.IntN(span))
			if a, _, err := c.SetAttr(ctx, alice, i, nfsclient.SetAttr{Size: &size}); err != nil || a.Size != size {
				t.Fatalf("truncate to %d: size %d, %v", size, a.Size, err)
			}
			m.truncate(int(size))
		case op < 94:
			if a, _, err := c.GetSize(ctx, alice, i); err != nil || a.Size != uint64(len(m.b)) {
				t.Fatalf("size %d, want %d: %v", a.Size, len(m.b), err)
			}
		case op < 97:
			g, _, err := c.Open(ctx, alice, i, OpenMode{Read: true, Write: true, Direct: r.IntN(4) == 0, Sync: r.IntN(4) == 0})
			check(t, err)
			files = append(files, g)
		case len(files) > 1:
			check(t, f.Flush(ctx))
			onDisk("close")
			f.Release()
			files = append(files[:n], files[n+1:]...)
		}
	}
	for _, f := range files {
		check(t, f.Flush(ctx))
		f.Release()
	}
	onDisk("the last close")
}

func differ(a, b []byte) int {
	for k := range min(len(a), len(b)) {
		if a[k] != b[k] {
			return k
		}
	}
	return min(len(a), len(b))
}

// Several users of one file, each in a region of its own, side by side.
func TestModelConcurrent(t *testing.T) {
	rounds := 6
	if testing.Short() {
		rounds = 3
	}
	eachSeed(t, rounds, false, func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 3))
		srv := unruly(t, rand.New(rand.NewPCG(seed, 4)))
		c := newCache(t, srv, smallConfig(r))
		f := create(t, c, "a")
		const region = 70 << 10
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() { runRegion(t, c, srv, f.i, rand.New(rand.NewPCG(seed, uint64(10+g))), g*region, region) })
		}
		wg.Wait()
		check(t, f.Flush(ctx))
		f.Release()
	})
}

func runRegion(t *testing.T, c *Cache, srv *fake, i *Inode, r *rand.Rand, base, size int) {
	cr := nfsclient.Cred{UID: uint32(r.IntN(2))}
	f, _, err := c.Open(ctx, cr, i, rw)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Release()
	m := make([]byte, size)
	p := make([]byte, size)
	for range 80 {
		off := r.IntN(size)
		n := 1 + r.IntN(min(12<<10, size-off))
		switch op := r.IntN(10); {
		case op < 5:
			for k := range n {
				p[k] = byte(r.Uint32())
			}
			if k, err := f.Write(ctx, p[:n], int64(base+off)); err != nil || k != n {
				t.Errorf("write: %d, %v", k, err)
				return
			}
			copy(m[off:], p[:n])
		case op < 9:
			clear(p)
			if _, err := f.Read(ctx, p[:n], int64(base+off)); err != nil {
				t.Errorf("read: %v", err)
				return
			}
			if !bytes.Equal(p[:n], m[off:off+n]) {
				t.Errorf("read of %d at %d differs at %d", n, base+off, base+off+differ(p[:n], m[off:off+n]))
				return
			}
		default:
			if err := f.Fsync(ctx); err != nil {
				t.Errorf("fsync: %v", err)
				return
			}
			clear(p)
			if disk := srv.content("a"); len(disk) > base {
				copy(p, disk[base:])
			}
			if !bytes.Equal(p, m) {
				t.Errorf("after fsync the disk differs at %d", base+differ(p, m))
				return
			}
		}
	}
}

// Writers, truncations and fsyncs side by side: who wins is open, but what
// fsync leaves on disk is what reads give.
func TestModelTruncateRaces(t *testing.T) {
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	eachSeed(t, rounds, true, func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 3))
		srv := unruly(t, rand.New(rand.NewPCG(seed, 4)))
		c := newCache(t, srv, smallConfig(r))
		f := create(t, c, "a")
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() { runTruncates(t, c, f, rand.New(rand.NewPCG(seed, uint64(10+g)))) })
		}
		wg.Wait()
		check(t, f.Flush(ctx))
		got, want := read(t, f, 200<<10, 0), srv.content("a")
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes read, %d on disk; first difference at %d", len(got), len(want), differ(got, want))
		}
		if a, _, err := c.GetSize(ctx, alice, f.i); err != nil || a.Size != uint64(len(want)) {
			t.Errorf("size %d, %d on disk, %v", a.Size, len(want), err)
		}
		f.Release()
	})
}

func runTruncates(t *testing.T, c *Cache, f *File, r *rand.Rand) {
	p := make([]byte, 12<<10)
	for range 60 {
		off := int64(r.IntN(100 << 10))
		var err error
		switch r.IntN(8) {
		case 0:
			size := uint64(off)
			_, _, err = c.SetAttr(ctx, alice, f.i, nfsclient.SetAttr{Size: &size})
		case 1:
			err = f.Fsync(ctx)
		case 2, 3:
			_, err = f.Read(ctx, p, off)
		default:
			p[0]++
			_, err = f.Write(ctx, p[:1+r.IntN(len(p))], off)
		}
		if err != nil {
			t.Error(err)
			return
		}
	}
}

// Many files at once in little memory: nobody waits for ever.
func TestLittleMemory(t *testing.T) {
	srv := newFake(t)
	srv.hook = jitter(rand.New(rand.NewPCG(5, 6)))
	pool, err := bufpool.New(bufpool.Config{Limit: 1}) // the least: 4 MiB
	check(t, err)
	cfg := testConfig()
	cfg.RSize, cfg.WSize, cfg.ReadAhead = 1<<20, 1<<20, 4<<20
	c, err := New(srv, pool, cfg)
	check(t, err)
	const files, size = 12, 1 << 20
	var wg sync.WaitGroup
	for k := range files {
		wg.Go(func() {
			name := fmt.Sprint("f", k)
			e, f, err := c.Create(ctx, alice, c.Root(), name, nfsclient.SetAttr{}, true, rw)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Forget(e.Inode, 1)
			defer f.Release()
			want := pattern(size, byte(k))
			for off := 0; off < size; off += 50_000 {
				if _, err := f.Write(ctx, want[off:min(off+50_000, size)], int64(off)); err != nil {
					t.Error(err)
					return
				}
			}
			got := make([]byte, size)
			for off := 0; off < size; off += 128 << 10 {
				if _, err := f.Read(ctx, got[off:off+128<<10], int64(off)); err != nil {
					t.Error(err)
					return
				}
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s differs at %d", name, differ(got, want))
			}
			if err := f.Flush(ctx); err != nil {
				t.Error(err)
			}
			if !bytes.Equal(srv.content(name), want) {
				t.Errorf("%s differs on disk", name)
			}
		})
	}
	wg.Wait()
	check(t, c.Close(ctx))
	check(t, pool.Close())
}
