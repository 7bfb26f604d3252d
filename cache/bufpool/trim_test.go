package bufpool

import (
	"bytes"
	"sync"
	"testing"
)

// TestTrim: the memory of a buffer that is not used from one trim to the next goes back
// to the system, so that it reads as zeros. What is lent, or was used since, stays.
func TestTrim(t *testing.T) {
	p := newPool(t, Config{Limit: 16 << 20, Trim: true})
	fill := func(l Lease) []byte {
		for k := range l.Bytes() {
			l.Bytes()[k] = 7
		}
		return l.Bytes()
	}
	kept := get(t, p, MaxSize)
	lent := fill(kept)
	l := get(t, p, MaxSize)
	free := fill(l)
	l.Release()
	filled := bytes.Repeat([]byte{7}, MaxSize)
	p.trim()
	if !bytes.Equal(free, filled) {
		t.Error("the memory of a buffer that was just used has gone")
	}
	get(t, p, MaxSize).Release() // the same
	p.trim()
	if !bytes.Equal(free, filled) {
		t.Error("the memory of a buffer that was used again has gone")
	}
	p.trim()
	if !bytes.Equal(free, make([]byte, MaxSize)) {
		t.Error("the memory of an unused buffer is kept")
	}
	if !bytes.Equal(lent, filled) {
		t.Error("the memory of a lent buffer has gone")
	}
	kept.Release()
	again := get(t, p, MaxSize)
	if got := again.Bytes(); &got[0] != &lent[0] {
		t.Error("lent is not what was used last")
	}
	fill(again)
	again.Release()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestIdle: who wants to know is told once for each burst that its buffers were not used for
// an interval, and pinned memory stays.
func TestIdle(t *testing.T) {
	for _, trim := range []bool{true, false} {
		told := 0
		p := newPool(t, Config{Limit: 16 << 20, Trim: trim, Idle: func() { told++ }})
		interval := func() {
			p.stopTrim() // it is for the test to say when the interval ends
			p.mu.Lock()
			p.trimming = true
			p.runs.Add(1)
			p.mu.Unlock()
			p.runTrim()
		}
		for burst := range 3 {
			a, b := get(t, p, MaxSize), get(t, p, MaxSize)
			a.Bytes()[0] = 7
			a.Release()
			b.Release()
			interval()
			if told != burst {
				t.Errorf("trim %v: told %d times of %d bursts, one of which is not over", trim, told, burst+1)
			}
			interval()
			interval()
			if told != burst+1 {
				t.Errorf("trim %v: told %d times of %d bursts", trim, told, burst+1)
			}
			if p.trimming {
				t.Errorf("trim %v: the timer is set though no memory is held", trim)
			}
			if kept := a.seg.Bytes()[0] == 7; kept == trim {
				t.Errorf("trim %v: memory kept %v", trim, kept)
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTrimUnderUse: buffers are lent and come back while memory is given back.
func TestTrimUnderUse(t *testing.T) {
	p := newPool(t, Config{Limit: 4 << 20, Trim: true})
	var users sync.WaitGroup
	for u := range 8 {
		users.Go(func() {
			for n := range 200 {
				l, err := p.Get(ctx, MinSize<<(n%classes))
				if err != nil {
					t.Error(err)
					return
				}
				b := l.Bytes()
				b[0], b[len(b)-1] = byte(u), byte(n)
				if b[0] != byte(u) || b[len(b)-1] != byte(n) {
					t.Error("a lent buffer has changed")
				}
				l.Release()
			}
		})
	}
	over := make(chan struct{})
	var trimmer sync.WaitGroup
	trimmer.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				p.trim()
			}
		}
	})
	users.Wait()
	close(over)
	trimmer.Wait()
	if s := p.Stats(); s.Lent != 0 || s.Leases != 0 || len(p.free) != p.made {
		t.Errorf("%+v, %d slabs free of %d", s, len(p.free), p.made)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
