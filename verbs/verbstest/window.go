package verbstest

import (
	"slices"
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// attack connects, has the client prepare memory, and the server do what it
// must not: both ends must die, and the client's memory must be as it was.
func attack(r *rig, name string, prepare func(dst mem.Seg) verbs.SendWR) {
	r.t.Run(name, func(t *testing.T) {
		r.client.t, r.server.t = t, t
		defer func() { r.client.t, r.server.t = r.t, r.t }()
		r.connect()
		defer r.disconnect()
		const size = 64 << 10
		all := r.client.seg(0, 3*size)
		fill(all, 0xd0)
		fill(r.server.seg(0, 3*size), 0x66)
		wr := prepare(all.Slice(size, size))
		if _, err := r.server.conn.PostSend([]verbs.SendWR{wr, {Op: verbs.OpSend}}); err != nil {
			t.Logf("post: %v", err)
		}
		r.bothDie()
		r.client.wantFill(all, 0xd0, "memory out of reach")
	})
}

// disconnect gives the rig back for another connection.
func (r *rig) disconnect() {
	for _, e := range []*end{r.client, r.server} {
		if e.conn != nil {
			e.conn.Close()
		}
		e.conn, e.queue = nil, nil
	}
}

// needWindows skips tests of what devices without windows do not promise.
func (r *rig) needWindows() {
	if r.client.dev.Caps().RegionKeys {
		r.t.Skip("the device has no windows")
	}
}

func testWindowBounds(r *rig) {
	whole := r.client.dev.Caps().RegionKeys || slices.Contains(r.flaws, LooseWindows)
	for _, op := range []verbs.Op{verbs.OpWrite, verbs.OpRead} {
		access, verb := verbs.RemoteWrite, "write "
		if op == verbs.OpRead {
			access, verb = verbs.RemoteRead, "read "
		}
		for _, x := range []struct {
			name    string
			fromEnd bool // of the window of 1000 bytes, or of the arena
			off, n  int
		}{
			{"one byte before", false, -1, 10},
			{"one byte after", true, -9, 10},
			{"one byte more", true, -1000, 1001},
			{"wholly before", false, -10, 10},
			{"wholly after", true, 0, 1},
			{"far away", true, 1 << 30, 1},
			{"far before", false, -1 << 40, 1},
			{"long", true, -1000, 60000},
		} {
			attack(r, verb+x.name, func(dst mem.Seg) verbs.SendWR {
				bound := dst.Slice(5000, 1000)
				if whole {
					bound = r.client.arena.Seg(0, arenaSize)
				}
				_, key, addr := r.client.bind(r.ctx, bound, access)
				if x.fromEnd {
					addr += uint64(bound.Len)
				}
				return verbs.SendWR{ID: 1, Op: op, RKey: key, Addr: addr + uint64(x.off), Local: vec(r.server.seg(0, x.n))}
			})
		}
	}
}

func testWindowRights(r *rig) {
	r.needWindows()
	attack(r, "write where one may read", func(dst mem.Seg) verbs.SendWR {
		_, key, addr := r.client.bind(r.ctx, dst, verbs.RemoteRead)
		return verbs.SendWR{Op: verbs.OpWrite, RKey: key, Addr: addr, Local: vec(r.server.seg(0, 10))}
	})
	attack(r, "read where one may write", func(dst mem.Seg) verbs.SendWR {
		_, key, addr := r.client.bind(r.ctx, dst, verbs.RemoteWrite)
		return verbs.SendWR{Op: verbs.OpRead, RKey: key, Addr: addr, Local: vec(r.server.seg(0, 10))}
	})
}

// testWindowStates uses keys that are not valid, or not any more.
func testWindowStates(r *rig) {
	both := verbs.RemoteRead | verbs.RemoteWrite
	for _, op := range []verbs.Op{verbs.OpWrite, verbs.OpRead} {
		verb := "write "
		if op == verbs.OpRead {
			verb = "read "
		}
		use := func(key uint32, addr uint64) verbs.SendWR {
			return verbs.SendWR{ID: 1, Op: op, RKey: key, Addr: addr, Local: vec(r.server.seg(0, 100))}
		}
		attack(r, verb+"no key", func(dst mem.Seg) verbs.SendWR { return use(0, 0) })
		if r.client.dev.Caps().RegionKeys {
			continue
		}
		attack(r, verb+"reserved key", func(dst mem.Seg) verbs.SendWR {
			w, err := r.client.conn.NewWindow()
			if err != nil {
				r.client.t.Fatal(err)
			}
			return use(w.Next(dst), w.Addr(dst))
		})
		attack(r, verb+"after local invalidate", func(dst mem.Seg) verbs.SendWR {
			_, key, addr := r.client.bind(r.ctx, dst, both)
			r.client.post(verbs.SendWR{ID: 2, Op: verbs.OpLocalInvalidate, Signaled: true, RKey: key})
			if c := r.client.next(r.ctx); c.ID != 2 || c.Op != verbs.OpLocalInvalidate {
				r.client.t.Fatalf("local invalidate completed as %+v", c)
			}
			return use(key, addr)
		})
		attack(r, verb+"after free", func(dst mem.Seg) verbs.SendWR {
			w, key, addr := r.client.bind(r.ctx, dst, both)
			w.Free()
			return use(key, addr)
		})
		attack(r, verb+"old key of a window bound again", func(dst mem.Seg) verbs.SendWR {
			w, key, addr := r.client.bind(r.ctx, dst, both)
			r.client.post(verbs.SendWR{Op: verbs.OpLocalInvalidate, RKey: key})
			r.client.rebind(r.ctx, w, dst, both)
			return use(key, addr)
		})
		attack(r, verb+"after remote invalidate", func(dst mem.Seg) verbs.SendWR {
			_, key, addr := r.client.bind(r.ctx, dst, both)
			if !r.client.dev.Caps().RemoteInvalidate {
				r.client.t.Skip("no remote invalidation")
			}
			r.server.post(verbs.SendWR{Op: verbs.OpSendInvalidate, RKey: key})
			r.client.next(r.ctx)
			return use(key, addr)
		})
		var key uint32
		var addr uint64
		attack(r, verb+"key of another connection", func(dst mem.Seg) verbs.SendWR {
			_, key, addr = r.client.bind(r.ctx, dst, both)
			r.disconnect()
			r.connect()
			return use(key, addr)
		})
	}
}

func testWindowKeys(r *rig) {
	r.connect()
	w, err := r.client.conn.NewWindow()
	if err != nil {
		r.t.Fatal(err)
	}
	dst, src := r.client.seg(0, 4096), r.server.seg(0, 4096)
	last := uint32(0)
	for i := range 1000 {
		key := w.Next(dst)
		if i > 0 && key == last && !r.client.dev.Caps().RegionKeys {
			r.t.Fatalf("Next gave key %#x twice in a row", key)
		}
		last = key
	}
	// A window is bound and invalidated again and again, and works each time.
	for i := range 50 {
		key := r.client.rebind(r.ctx, w, dst, verbs.RemoteWrite)
		pattern(src, i)
		r.server.post(verbs.SendWR{Op: verbs.OpWrite, RKey: key, Addr: w.Addr(dst), Local: vec(src)}, verbs.SendWR{Op: verbs.OpSend})
		r.client.repost(r.client.next(r.ctx))
		wantEqual(r.t, dst, src, "written memory")
		r.client.post(verbs.SendWR{Op: verbs.OpLocalInvalidate, RKey: key})
	}
	// The address of a part is the address of the whole plus its offset.
	if got, want := w.Addr(dst.Slice(100, 10)), w.Addr(dst)+100; got != want {
		r.t.Errorf("address of a part is %#x, want %#x", got, want)
	}
	w.Free()
	w.Free()
	// Bind and Send of one batch: the key is valid when the peer has it.
	for i := range 20 {
		w, err := r.client.conn.NewWindow()
		if err != nil {
			r.t.Fatal(err)
		}
		key := w.Next(dst)
		pattern(src, i)
		r.client.post(
			verbs.SendWR{Op: verbs.OpBind, Window: w, Local: vec(dst), Access: verbs.RemoteWrite},
			verbs.SendWR{Op: verbs.OpSend})
		r.server.repost(r.server.next(r.ctx))
		r.server.post(verbs.SendWR{Op: verbs.OpWrite, RKey: key, Addr: w.Addr(dst), Local: vec(src)}, verbs.SendWR{Op: verbs.OpSend})
		r.client.repost(r.client.next(r.ctx))
		wantEqual(r.t, dst, src, "written memory")
		w.Free()
	}
}

// testFreeBehindFullQueue: Free does not wait for completions to be taken, as its
// caller may be the only one that takes them.
func testFreeBehindFullQueue(r *rig) {
	o := r.client.options()
	o.SendQueue = 16
	r.connectWith(o, r.server.options())
	w, err := r.client.conn.NewWindow()
	if err != nil {
		r.t.Fatal(err)
	}
	s := r.client.seg(0, 64)
	w.Next(s)
	r.client.post(verbs.SendWR{Op: verbs.OpWrite, Signaled: true})
	r.client.next(r.ctx) // the queue is empty
	// The last requests ask for no completion, and one of them names w.
	var wr []verbs.SendWR
	for i := range uint64(14) {
		wr = append(wr, verbs.SendWR{ID: i, Op: verbs.OpWrite, Signaled: true})
	}
	wr = append(wr, verbs.SendWR{Op: verbs.OpBind, Window: w, Local: vec(s), Access: verbs.RemoteRead},
		verbs.SendWR{Op: verbs.OpWrite})
	r.client.post(wr...)
	done := make(chan struct{})
	go runFree(w, done)
	select {
	case <-done:
	case <-r.ctx.Done():
		r.t.Fatal("Free waits")
	}
	for i := range uint64(14) {
		if c := r.client.next(r.ctx); c.ID != i {
			r.t.Fatalf("completion %d is %+v", i, c)
		}
	}
}

func runFree(w verbs.Window, done chan<- struct{}) {
	defer close(done)
	w.Free()
}

func testRemoteInvalidate(r *rig) {
	if !r.client.dev.Caps().RemoteInvalidate {
		r.t.Skip("no remote invalidation")
	}
	r.connect()
	dst := r.client.seg(0, 4096)
	w, key, _ := r.client.bind(r.ctx, dst, verbs.RemoteWrite)
	for range 20 {
		r.server.post(verbs.SendWR{Op: verbs.OpSendInvalidate, RKey: key, Local: vec(r.server.seg(0, 9))})
		c := r.client.next(r.ctx)
		if !c.Invalidated || c.InvalidatedKey != key || c.Len != 9 {
			r.t.Fatalf("received %+v, want key %#x invalidated", c, key)
		}
		r.client.repost(c)
		key = r.client.rebind(r.ctx, w, dst, verbs.RemoteWrite)
	}
	r.server.post(verbs.SendWR{Op: verbs.OpSend})
	if c := r.client.next(r.ctx); c.Invalidated {
		r.t.Errorf("plain Send received as %+v", c)
	}
	r.disconnect()
	attack(r, "key that is not bound", func(mem.Seg) verbs.SendWR {
		return verbs.SendWR{Op: verbs.OpSendInvalidate, RKey: key}
	})
}
