package nfstest

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Sizes around the inline thresholds, pages and segments; offsets aligned to
// nothing.
func testReadWrite(e *env) {
	for _, how := range []nfsclient.Stable{nfsclient.Unstable, nfsclient.DataSync, nfsclient.FileSync} {
		for i, n := range []int{1, 2, 3, 4, 5, 500, 899, 1024, 1025, 3000, 4095, 4096, 4097, 8191, 65536, 65537, 262143} {
			h := e.create(fmt.Sprintf("file-%d-%d", how, n))
			off := uint64(i * 1237)
			b := pattern(n, uint64(n))
			e.write(h, off, b, how)
			e.wantData(h, off, b)
			if a := e.attr(h); a.Size != off+uint64(n) {
				e.Errorf("%d bytes at %d: size %d", n, off, a.Size)
			}
			// Overwritten in the middle.
			if n > 10 {
				copy(b[3:], "OVER")
				e.write(h, off+3, []byte("OVER"), how)
				e.wantData(h, off, b)
			}
		}
	}
}

func testEndOfFile(e *env) {
	h := e.create("file")
	b := pattern(5000, 1)
	e.write(h, 0, b, nfsclient.FileSync)
	for _, c := range []struct {
		off     uint64
		ask, n  int
		eof, ok bool // eof is asserted if ok: at the very end servers may say either
	}{
		{0, 5000, 5000, true, false}, {0, 5001, 5000, true, true}, {0, 4999, 4999, false, true}, {4999, 10, 1, true, true},
		{5000, 10, 0, true, true}, {5001, 10, 0, true, true}, {1 << 40, 10, 0, true, true}, {4096, 8192, 904, true, true},
	} {
		r, err := e.c.Read(e.ctx, e.cr, h, nil, c.off, mem.Vec{e.arena.Seg(0, c.ask)})
		if err != nil || r.N != c.n || c.ok && r.EOF != c.eof {
			e.Errorf("%d bytes from %d: %+v, %v", c.ask, c.off, r, err)
			continue
		}
		if !bytes.Equal(e.arena.Bytes()[:c.n], b[min(int(c.off), len(b)):][:c.n]) {
			e.Errorf("%d bytes from %d: wrong data", c.ask, c.off)
		}
	}
	empty := e.create("empty")
	if r, err := e.c.Read(e.ctx, e.cr, empty, nil, 0, mem.Vec{e.arena.Seg(0, 100)}); err != nil || r.N != 0 || !r.EOF {
		e.Errorf("empty file: %+v, %v", r, err)
	}
}

func testSparse(e *env) {
	h := e.create("file")
	const hole = 3<<20 + 17
	e.write(h, hole, []byte("end"), nfsclient.FileSync)
	e.wantData(h, hole-10, append(make([]byte, 10), "end"...))
	e.wantData(h, 0, make([]byte, 100000))
	e.wantData(h, 1<<20-1, make([]byte, 70000))
	if a := e.attr(h); a.Size != hole+3 || a.Used > 2<<20 {
		e.Logf("size %d, %d bytes used: the server fills holes", a.Size, a.Used)
	}
}

// Payloads of several segments, of odd lengths, empty ones among them.
func testVectors(e *env) {
	h := e.create("file")
	lens := []int{1, 4096, 0, 3, 8191, 2, 0, 12288, 5}
	v, total, off := mem.Vec{}, 0, 0
	for _, n := range lens {
		v = append(v, e.arena.Seg(off, n))
		total, off = total+n, off+n+64
	}
	b := pattern(total, 2)
	v.CopyIn(0, b)
	for done := 0; done < total; {
		r, err := e.c.Write(e.ctx, e.cr, h, nil, uint64(done), v.Slice(nil, done, total-done), nfsclient.FileSync)
		e.check(err)
		done += r.N
	}
	v.CopyIn(0, make([]byte, total))
	gaps := bytes.Clone(e.arena.Bytes()[:off])
	for done := 0; done < total; {
		r, err := e.c.Read(e.ctx, e.cr, h, nil, uint64(done), v.Slice(nil, done, total-done))
		e.check(err)
		if r.N == 0 {
			e.Fatalf("end of file after %d of %d bytes", done, total)
		}
		done += r.N
	}
	got := make([]byte, total)
	v.CopyOut(0, got)
	if !bytes.Equal(got, b) {
		e.Error("wrong data")
	}
	v.CopyIn(0, make([]byte, total))
	if !bytes.Equal(e.arena.Bytes()[:off], gaps) {
		e.Error("bytes between the segments were touched")
	}
}

// Reads and writes of a MiB, in one call where the server lets us, at offsets
// that nothing is aligned to.
func testLarge(e *env) {
	h := e.create("file")
	b := pattern(5<<20+4321, 3)
	for off := 0; off < len(b); off += 1 << 20 {
		e.write(h, uint64(off+7), b[off:min(off+1<<20, len(b))], nfsclient.Unstable)
	}
	_, _, err := e.c.Commit(e.ctx, e.cr, h, 0, 0)
	e.check(err)
	for _, off := range []int{0, 1, 4095, 65537, 1<<20 - 3, 2<<20 + 11, 4 << 20} {
		e.wantData(h, uint64(off+7), b[off:min(off+1<<20, len(b))])
	}
	e.wantData(h, 7, b)
	// Around the read, memory stays as it was.
	e.arena.Bytes()[0], e.arena.Bytes()[1<<20+1] = 0xa5, 0x5a
	r, err := e.c.Read(e.ctx, e.cr, h, nil, 7, mem.Vec{e.arena.Seg(1, 1<<20)})
	e.check(err)
	if e.arena.Bytes()[0] != 0xa5 || e.arena.Bytes()[1<<20+1] != 0x5a || !bytes.Equal(e.arena.Bytes()[1:1+r.N], b[:r.N]) {
		e.Error("READ strayed from its buffer, or brought wrong data")
	}
}

func testCommit(e *env) {
	h := e.create("file")
	b := pattern(100000, 4)
	v := mem.Vec{e.arena.Seg(0, len(b))}
	v.CopyIn(0, b)
	var verf nfsclient.Verifier
	for done := 0; done < len(b); {
		r, err := e.c.Write(e.ctx, e.cr, h, nil, uint64(done), v.Slice(nil, done, len(b)-done), nfsclient.Unstable)
		e.check(err)
		if done > 0 && r.Verifier != verf {
			e.Errorf("verifier went from %x to %x without a restart", verf, r.Verifier)
		}
		done, verf = done+r.N, r.Verifier
		if r.Wcc.After.Set && r.Wcc.After.Size != uint64(done) {
			e.Errorf("size %d after %d bytes", r.Wcc.After.Size, done)
		}
	}
	for _, c := range []struct {
		off   uint64
		count uint32
	}{{0, 0}, {0, uint32(len(b))}, {4097, 100}, {1 << 30, 0}} {
		got, _, err := e.c.Commit(e.ctx, e.cr, h, c.off, c.count)
		if err != nil || got != verf {
			e.Errorf("COMMIT of %d from %d: verifier %x, writes had %x, %v", c.count, c.off, got, verf, err)
		}
	}
	e.wantData(h, 0, b)
}

func testTruncate(e *env) {
	h := e.create("file")
	b := pattern(70000, 5)
	e.write(h, 0, b, nfsclient.FileSync)
	size := func(n uint64) {
		e.Helper()
		wcc, err := e.c.SetAttr(e.ctx, e.cr, h, nil, nfsclient.SetAttr{Size: &n})
		e.check(err)
		if wcc.After.Set && wcc.After.Size != n {
			e.Errorf("SETATTR to %d: size %d", n, wcc.After.Size)
		}
		if a := e.attr(h); a.Size != n {
			e.Errorf("size %d, set to %d", a.Size, n)
		}
	}
	size(12345)
	if got, eof := e.read(h, 0, 70000); !eof || !bytes.Equal(got, b[:12345]) {
		e.Errorf("after truncation: %d bytes, end %v", len(got), eof)
	}
	size(20000)
	e.wantData(h, 0, append(bytes.Clone(b[:12345]), make([]byte, 20000-12345)...))
	size(0)
	size(1 << 33)
	e.wantData(h, 1<<33-5, make([]byte, 5))
	size(3)
}

func testDataOfOtherTypes(e *env) {
	v := mem.Vec{e.arena.Seg(0, 100)}
	_, err := e.c.Read(e.ctx, e.cr, e.dir, nil, 0, v)
	e.status("READ of a directory", err, nfsclient.ErrIsDir, nfsclient.ErrInval)
	_, err = e.c.Write(e.ctx, e.cr, e.dir, nil, 0, v, nfsclient.FileSync)
	e.status("WRITE to a directory", err, nfsclient.ErrIsDir, nfsclient.ErrInval)
	_, err = e.c.SetAttr(e.ctx, e.cr, e.dir, nil, nfsclient.SetAttr{Size: ptr(uint64(0))})
	e.status("truncation of a directory", err, nfsclient.ErrIsDir, nfsclient.ErrInval)
	_, _, err = e.c.Readlink(e.ctx, e.cr, e.create("file"))
	e.status("READLINK of a file", err, nfsclient.ErrInval)
	m, err := e.c.Symlink(e.ctx, e.cr, e.dir, "link", "file", nfsclient.SetAttr{})
	e.check(err)
	_, err = e.c.Read(e.ctx, e.cr, m.Handle, nil, 0, v)
	e.status("READ of a symbolic link", err, nfsclient.ErrInval)
}

// Many calls at once, each with its own part of the file and of the memory.
func testConcurrent(e *env) {
	h := e.create("file")
	const workers, rounds, size = 16, 8, 30001
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { e.runWorker(h, w, rounds, size) })
	}
	wg.Wait()
	if a := e.attr(h); a.Size != workers*rounds*size {
		e.Errorf("size %d", a.Size)
	}
}

func (e *env) runWorker(h nfsclient.Handle, w, rounds, size int) {
	v := mem.Vec{e.arena.Seg(w*(arenaSize/16), size)}
	got := make([]byte, size)
	for i := range rounds {
		off := uint64((i*16 + w) * size)
		b := pattern(size, uint64(w*1000+i))
		v.CopyIn(0, b)
		for done := 0; done < size; {
			r, err := e.c.Write(e.ctx, e.cr, h, nil, off+uint64(done), v.Slice(nil, done, size-done), nfsclient.Unstable)
			if err != nil {
				e.Error(err)
				return
			}
			done += r.N
		}
		if _, err := e.c.GetAttr(e.ctx, e.cr, h); err != nil {
			e.Error(err)
			return
		}
		v.CopyIn(0, make([]byte, size))
		for done := 0; done < size; {
			r, err := e.c.Read(e.ctx, e.cr, h, nil, off+uint64(done), v.Slice(nil, done, size-done))
			if err != nil || r.N == 0 {
				e.Errorf("%+v, %v", r, err)
				return
			}
			done += r.N
		}
		if v.CopyOut(0, got); !bytes.Equal(got, b) {
			e.Errorf("worker %d, round %d: wrong data", w, i)
			return
		}
	}
}
