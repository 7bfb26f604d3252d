package fs

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/test/garbage"
)

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestInterrupt: an interrupted request goes on until its process is being
// killed, which is checked at once and then every killPollInterval.
func TestInterrupt(t *testing.T) {
	f := &FS{cache: new(cache.Cache), ctx: t.Context()}
	killed, looks := map[uint32]verdict{}, 0
	f.watch.check = func(pid uint32) verdict { looks++; return killed[pid] }
	interrupt := make(chan struct{})
	one := f.begin(interrupt, &fuse.InHeader{Caller: fuse.Caller{Pid: 1}})
	other := f.begin(make(chan struct{}), &fuse.InHeader{Caller: fuse.Caller{Pid: 2}})
	first := one.Done()
	if one.Err() != nil || one.Done() != first {
		t.Fatal("a request begins with an error, or with two channels")
	}
	other.Done()
	killed[2] = dying // but not interrupted

	now := time.Unix(1, 0)
	if !f.watch.poll(now) || looks != 0 {
		t.Fatalf("%d looks at processes that were not interrupted", looks)
	}
	close(interrupt)
	f.watch.poll(now)
	killed[1] = dying
	f.watch.poll(now.Add(killPollInterval - 1))
	if looks != 1 || isClosed(one.Done()) || one.Err() != nil {
		t.Fatalf("%d looks; error %v", looks, one.Err())
	}
	f.watch.poll(now.Add(killPollInterval))
	if looks != 2 || !isClosed(one.Done()) || one.Err() != context.Canceled {
		t.Fatalf("%d looks; error %v", looks, one.Err())
	}
	one.end()
	if isClosed(other.Done()) || len(f.watch.ops) != 1 {
		t.Fatalf("%d requests are watched, want the other", len(f.watch.ops))
	}
	other.end()
	if f.watch.poll(now) || len(f.watch.ops) != 0 {
		t.Fatal("an ended request is still watched")
	}
}

// TestLostInterrupt: where interrupts may be lost, the thread of a request that is
// blocked for long is checked all the same; if it cannot be inspected, the request
// goes on.
func TestLostInterrupt(t *testing.T) {
	f := &FS{cache: new(cache.Cache), ctx: t.Context()}
	f.watch.loseInterrupts()
	looks := map[uint32]int{}
	killed := map[uint32]verdict{2: unseen}
	f.watch.check = func(pid uint32) verdict { looks[pid]++; return killed[pid] }
	var all []*opContext
	for pid := range uint32(3) {
		c := f.begin(make(chan struct{}), &fuse.InHeader{Caller: fuse.Caller{Pid: pid}})
		c.Done()
		defer c.end()
		all = append(all, c)
	}
	now := time.Unix(1, 0)
	f.watch.poll(now)
	f.watch.poll(now.Add(killPollInterval - 1))
	if len(looks) != 0 {
		t.Errorf("looked at %v before they were blocked for long", looks)
	}
	f.watch.poll(now.Add(killPollInterval))
	killed[1] = dying
	f.watch.poll(now.Add(2 * killPollInterval))
	f.watch.poll(now.Add(100 * unseenTimeout))
	for pid, c := range all {
		if want := pid == 1; isClosed(c.Done()) != want {
			t.Errorf("the request of thread %d was cancelled: %t", pid, !want)
		}
	}
	if looks[1] != 2 {
		t.Errorf("%d looks at the one that was killed, want 2", looks[1])
	}
}

// TestManyBlockedWrites: when so many WRITEs are blocked that interrupts may not be
// read, the threads of all of them are checked, but of no other request.
func TestManyBlockedWrites(t *testing.T) {
	f := &FS{cache: new(cache.Cache), ctx: t.Context()}
	looks := map[uint32]int{}
	f.watch.check = func(pid uint32) verdict {
		looks[pid]++
		return map[uint32]verdict{1: dying, 3: unseen}[pid]
	}
	flush := f.begin(make(chan struct{}), &fuse.InHeader{Caller: fuse.Caller{Pid: 1000}})
	flush.Done()
	defer flush.end()
	now := time.Unix(1, 0)
	var writes []*opContext
	for n := range crowdedWrites {
		if f.watch.poll(now); len(looks) != 0 {
			t.Fatalf("%d WRITEs wait, and processes %v are looked at", n, looks)
		}
		c := f.begin(make(chan struct{}), &fuse.InHeader{Caller: fuse.Caller{Pid: uint32(n + 1)}})
		c.write = true
		c.Done()
		writes = append(writes, c)
	}
	f.watch.poll(now)
	if len(looks) != crowdedWrites || looks[1000] != 0 {
		t.Errorf("%d processes are looked at", len(looks))
	}
	for n, c := range writes {
		if isClosed(c.Done()) != (n == 0) {
			t.Errorf("request %d: cancelled %v", n, n != 0)
		}
	}
	f.watch.poll(now.Add(killPollInterval)) // one less
	if looks[2] != 1 {
		t.Errorf("%d looks", looks[2])
	}
	for _, c := range writes {
		c.end()
	}
	if f.watch.writes != 0 || len(f.watch.ops) != 1 {
		t.Errorf("%d WRITEs and %d requests are watched", f.watch.writes, len(f.watch.ops))
	}
}

// TestInterruptMany ends requests out of order.
func TestInterruptMany(t *testing.T) {
	f := &FS{cache: new(cache.Cache), ctx: t.Context()}
	f.watch.check = func(uint32) verdict { return dying }
	var ops []*opContext
	var interrupts []chan struct{}
	for range 5 {
		c := make(chan struct{})
		o := f.begin(c, &fuse.InHeader{})
		o.Done()
		ops, interrupts = append(ops, o), append(interrupts, c)
	}
	for _, n := range []int{0, 3} {
		ops[n].end()
	}
	close(interrupts[0])
	close(interrupts[4])
	f.watch.poll(time.Unix(1, 0))
	for n, want := range []bool{false, false, false, false, true} {
		if isClosed(ops[n].Done()) != want {
			t.Errorf("request %d: cancelled %v, want %v", n, !want, want)
		}
	}
	ops[4].end()
	ops[1].end()
	ops[2].end()
	if len(f.watch.ops) != 0 {
		t.Errorf("%d requests are still watched", len(f.watch.ops))
	}
}

// TestTeardown: the end of the mount ends those that wait, and those that come.
func TestTeardown(t *testing.T) {
	ctx, abort := context.WithCancel(context.Background())
	f := &FS{cache: new(cache.Cache), ctx: ctx}
	f.watch.start(ctx, func(uint32) verdict { return running })
	before := f.begin(nil, &fuse.InHeader{})
	done := before.Done()
	abort()
	<-done
	f.watch.joined.Wait()
	after := f.begin(nil, &fuse.InHeader{})
	<-after.Done()
	for _, c := range []*opContext{before, after} {
		if !errors.Is(c.Err(), context.Canceled) || errno(c.Err()) != fuse.EIO {
			t.Errorf("error %v", c.Err())
		}
		c.end()
	}
}

// TestRunWatch: with the goroutine running, one kill ends one request, also
// after the watch had nothing to do.
func TestRunWatch(t *testing.T) {
	ctx, abort := context.WithCancel(context.Background())
	f := &FS{cache: new(cache.Cache), ctx: ctx}
	f.watch.start(ctx, func(uint32) verdict { return dying })
	for range 2 {
		interrupt := make(chan struct{})
		c := f.begin(interrupt, &fuse.InHeader{})
		done := c.Done()
		close(interrupt)
		<-done
		c.end()
	}
	abort()
	f.watch.joined.Wait()
}

// TestAfterFunc: package context needs no goroutine to wait for a request.
func TestAfterFunc(t *testing.T) {
	f := &FS{cache: new(cache.Cache), ctx: t.Context()}
	f.watch.check = func(uint32) verdict { return dying }
	interrupt := make(chan struct{})
	c := f.begin(interrupt, &fuse.InHeader{})
	ran := make(chan string, 2)
	stop := context.AfterFunc(c, func() { ran <- "stopped" })
	context.AfterFunc(c, func() { ran <- "kept" })
	sub, cancel := context.WithCancel(c)
	defer cancel()
	if len(c.after) != 3 {
		t.Fatalf("%d functions are known, want 3", len(c.after))
	}
	if !stop() || stop() {
		t.Error("stop does not tell whether it stopped the function")
	}
	close(interrupt)
	f.watch.poll(time.Unix(1, 0))
	if got := <-ran; got != "kept" {
		t.Errorf("ran %q", got)
	}
	<-sub.Done()
	context.AfterFunc(c, func() { ran <- "late" })
	if got := <-ran; got != "late" {
		t.Errorf("ran %q", got)
	}
	c.end()
}

// TestInterruptUnseen: why a process outside the pid namespace was interrupted
// cannot be seen. Its request goes on for unseenTimeout, and then ends.
func TestInterruptUnseen(t *testing.T) {
	f := &FS{cache: new(cache.Cache), ctx: t.Context()}
	f.watch.check = checkThread
	interrupt := make(chan struct{})
	c := f.begin(interrupt, &fuse.InHeader{})
	other := f.begin(make(chan struct{}), &fuse.InHeader{})
	other.Done()
	done := c.Done()
	close(interrupt)
	now := time.Unix(1, 0)
	f.watch.poll(now)
	f.watch.poll(now.Add(unseenTimeout - 1))
	if isClosed(done) {
		t.Fatal("cancelled though the server had little time to answer")
	}
	f.watch.poll(now.Add(unseenTimeout))
	if !isClosed(done) || errno(c.Err()) != fuse.EINTR {
		t.Errorf("error %v", c.Err())
	}
	f.watch.poll(now.Add(time.Hour))
	if isClosed(other.Done()) {
		t.Error("cancelled without an interrupt")
	}
	c.end()
	other.end()
}

// TestVerdictOnAnother: a verdict on the thread of a request that has ended meanwhile does
// not cancel the next one, which has its context.
func TestVerdictOnAnother(t *testing.T) {
	f := &FS{cache: new(cache.Cache), ctx: t.Context()}
	interrupt := make(chan struct{})
	close(interrupt)
	one := f.begin(interrupt, &fuse.InHeader{Caller: fuse.Caller{Pid: 1}})
	one.Done()
	var next *opContext
	f.watch.check = func(uint32) verdict {
		one.end()
		next = f.begin(make(chan struct{}), &fuse.InHeader{Caller: fuse.Caller{Pid: 2}})
		next.Done()
		return dying
	}
	f.watch.poll(time.Unix(1, 0))
	if isClosed(next.Done()) || next.Err() != nil {
		t.Errorf("the request after one whose process is dying has ended: %v", next.Err())
	}
	next.end()
}

// TestRequestAllocatesNothing: what a READ that waits for the server needs of fs.
func TestRequestAllocatesNothing(t *testing.T) {
	f := &FS{cache: new(cache.Cache), ctx: t.Context()}
	h, cancel := new(fuse.InHeader), make(chan struct{})
	garbage.None(t, func() {
		c := f.begin(cancel, h)
		if isClosed(c.Done()) {
			t.Fatal("ended")
		}
		c.end()
		newLentResult(cache.Lent{}).Done()
	})
}
