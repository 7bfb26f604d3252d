package cache

import (
	"fmt"
	"testing"

	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/nfsclient"
)

func benchCache(b *testing.B) (*fake, *Cache) {
	srv := newFake(b)
	srv.volatile = true
	pool, err := bufpool.New(bufpool.Config{Limit: 64 << 20})
	check(b, err)
	cfg := testConfig()
	cfg.RSize, cfg.WSize, cfg.ReadAhead = 1<<20, 1<<20, 8<<20
	c, err := New(srv, pool, cfg)
	check(b, err)
	b.Cleanup(func() {
		check(b, c.Close(ctx))
		check(b, pool.Close())
	})
	return srv, c
}

const benchSize = 32 << 20

func BenchmarkSequentialRead(b *testing.B) {
	srv, c := benchCache(b)
	srv.foreign("a", make([]byte, benchSize))
	f, _ := open(b, c, "a", rw)
	defer f.Release()
	p := make([]byte, 128<<10)
	b.SetBytes(benchSize)
	b.ReportAllocs()
	for b.Loop() {
		for off := int64(0); off < benchSize; off += int64(len(p)) {
			if n, err := f.Read(ctx, p, off); err != nil || n != len(p) {
				b.Fatal(n, err)
			}
		}
	}
}

func BenchmarkRandomRead4K(b *testing.B) {
	srv, c := benchCache(b)
	srv.foreign("a", make([]byte, benchSize))
	f, _ := open(b, c, "a", rw)
	defer f.Release()
	p := make([]byte, 4096)
	b.SetBytes(4096)
	b.ReportAllocs()
	off := int64(0)
	for b.Loop() {
		off = (off + 12345*4096) % benchSize
		if n, err := f.Read(ctx, p, off); err != nil || n != len(p) {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkSequentialWrite(b *testing.B) {
	_, c := benchCache(b)
	f := create(b, c, "a")
	defer f.Release()
	p := make([]byte, 128<<10)
	b.SetBytes(benchSize)
	b.ReportAllocs()
	for b.Loop() {
		for off := int64(0); off < benchSize; off += int64(len(p)) {
			if _, err := f.Write(ctx, p, off); err != nil {
				b.Fatal(err)
			}
		}
		check(b, f.Fsync(ctx))
	}
}

func BenchmarkSmallFile(b *testing.B) {
	_, c := benchCache(b)
	p := make([]byte, 4096)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		e, f, err := c.Create(ctx, alice, c.Root(), fmt.Sprint("f", n%1000), nfsclient.SetAttr{}, false, rw)
		check(b, err)
		write(b, f, p, 0)
		check(b, f.Flush(ctx))
		f.Release()
		c.Forget(e.Inode, 1)
	}
}

func BenchmarkLookupHit(b *testing.B) {
	srv, c := benchCache(b)
	bigDir(b, srv, 10_000)
	listAll(b, c, 1000)
	names := make([]string, 10_000)
	for k := range names {
		names[k] = fmt.Sprintf("file%05d", k)
	}
	before := srv.total()
	b.ReportAllocs()
	k := 0
	for b.Loop() {
		e, err := c.Lookup(ctx, alice, c.Root(), names[k%len(names)])
		if err != nil {
			b.Fatal(err)
		}
		c.Forget(e.Inode, 1)
		k++
	}
	b.ReportMetric(1-float64(srv.total()-before)/float64(k), "hits/lookup")
}
