package verbstest

import (
	"slices"

	"github.com/rdmafs/rdmafs/verbs"
)

// testWriteThenSend: data is in place when the Send after it is received.
func testWriteThenSend(r *rig) {
	r.connect()
	const size = 1 << 20
	dst, src := r.client.seg(0, size), r.server.seg(0, size)
	_, key, addr := r.client.bind(r.ctx, dst, verbs.RemoteWrite)
	for round := range 8 {
		pattern(src, round)
		var wr []verbs.SendWR
		for off := 0; off < size; off += size / 8 {
			wr = append(wr, verbs.SendWR{Op: verbs.OpWrite, RKey: key, Addr: addr + uint64(off),
				Local: vec(src.Slice(off, size/8))})
		}
		wr = append(wr, verbs.SendWR{Op: verbs.OpSend, Signaled: true})
		r.server.post(wr...)
		r.client.repost(r.client.next(r.ctx))
		wantEqual(r.t, dst, src, "written memory")
		r.server.next(r.ctx)
	}
}

func testWriteShapes(r *rig) {
	r.connect()
	const size = 256 << 10
	dst, src := r.client.seg(0, size), r.server.seg(0, size)
	_, key, addr := r.client.bind(r.ctx, dst, verbs.RemoteWrite)
	for i, n := range []int{1, 3, 4, 5, 1444, 1449, 8191, 16384, 61439, 61440, 61441, 65536, 100001, size} {
		pattern(src, i)
		fill(dst, 0xaa)
		off := (size - n) / 2
		r.server.post(
			verbs.SendWR{Op: verbs.OpWrite, RKey: key, Addr: addr + uint64(off),
				Local: vec(src.Slice(off, n/2), src.Slice(0, 0), src.Slice(off+n/2, n-n/2))},
			verbs.SendWR{Op: verbs.OpSend})
		r.client.repost(r.client.next(r.ctx))
		wantEqual(r.t, dst.Slice(off, n), src.Slice(off, n), "written memory")
		r.client.wantFill(dst.Slice(0, off), 0xaa, "memory before the write")
		r.client.wantFill(dst.Slice(off+n, size-off-n), 0xaa, "memory after the write")
	}
	// Nothing may be written anywhere.
	r.server.post(verbs.SendWR{Op: verbs.OpWrite, RKey: key + 1, Addr: 1}, verbs.SendWR{Op: verbs.OpSend})
	r.client.next(r.ctx)
}

func testRead(r *rig) {
	r.connect()
	const size = 1 << 20
	src, dst := r.client.seg(0, size), r.server.seg(0, size)
	_, key, addr := r.client.bind(r.ctx, src, verbs.RemoteRead)
	p := r.client.pump(r.ctx)
	defer p.stop()
	for i, n := range []int{0, 1, 3, 4, 5, 1449, 16384, 20480, 61441, 100001, size} {
		pattern(src, i)
		fill(dst, 0xaa)
		off := (size - n) / 2
		if n < 64 && slices.Contains(r.flaws, TornReads) {
			off = size / 2
		}
		r.server.post(verbs.SendWR{ID: uint64(n), Op: verbs.OpRead, RKey: key, Addr: addr + uint64(off), Local: vec(dst.Slice(off, n))})
		if c := r.server.next(r.ctx); c.ID != uint64(n) || c.Op != verbs.OpRead {
			r.t.Fatalf("read of %d bytes completed as %+v", n, c)
		}
		wantEqual(r.t, dst.Slice(off, n), src.Slice(off, n), "read memory")
		r.server.wantFill(dst.Slice(0, off), 0xaa, "memory before the read")
		r.server.wantFill(dst.Slice(off+n, size-off-n), 0xaa, "memory after the read")
	}
}

// testManyReads posts more Reads than may be outstanding.
func testManyReads(r *rig) {
	co, so := r.client.options(), r.server.options()
	co.ReadsIn, so.ReadsOut = 2, 8
	r.connectWith(co, so)
	if got := r.server.conn.ReadsOut(); got != 2 {
		r.t.Errorf("ReadsOut is %d after 8 were asked and 2 offered", got)
	}
	const n, size = 100, 10000
	src, dst := r.client.seg(0, n*size), r.server.seg(0, n*size)
	pattern(src, 1)
	_, key, addr := r.client.bind(r.ctx, src, verbs.RemoteRead)
	p := r.client.pump(r.ctx)
	defer p.stop()
	for i := range n {
		r.server.post(verbs.SendWR{ID: uint64(i), Op: verbs.OpRead, RKey: key, Addr: addr + uint64(i*size), Local: vec(dst.Slice(i*size, size))})
	}
	for i := range n {
		if c := r.server.next(r.ctx); c.ID != uint64(i) {
			r.t.Fatalf("read %d completed as %+v", i, c)
		}
		wantEqual(r.t, dst.Slice(i*size, size), src.Slice(i*size, size), "read memory")
	}
}

// testReadThenSend: completions keep the order of posting.
func testReadThenSend(r *rig) {
	r.connect()
	const size = 300000
	src, dst := r.client.seg(0, size), r.server.seg(0, size)
	pattern(src, 3)
	_, key, addr := r.client.bind(r.ctx, src, verbs.RemoteRead)
	p := r.client.pump(r.ctx)
	defer p.stop()
	r.server.post(
		verbs.SendWR{ID: 1, Op: verbs.OpRead, RKey: key, Addr: addr, Local: vec(dst)},
		verbs.SendWR{ID: 2, Op: verbs.OpSend, Signaled: true},
		verbs.SendWR{ID: 3, Op: verbs.OpRead, RKey: key, Addr: addr, Local: vec(dst.Slice(0, 10))},
		verbs.SendWR{ID: 4, Op: verbs.OpSend, Signaled: true})
	for id := uint64(1); id <= 4; id++ {
		if c := r.server.next(r.ctx); c.ID != id {
			r.t.Fatalf("got %+v, want the completion of %d", c, id)
		}
	}
	wantEqual(r.t, dst, src, "read memory")
}
