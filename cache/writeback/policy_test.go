package writeback

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// TestDelay: each further time that the server wants a WRITE later, it takes
// twice as long until the next one, up to the limit. WRITEs that were in flight
// beside it make it no longer, and any other answer ends it.
func TestDelay(t *testing.T) {
	b := newBench(t)
	first, beside := b.send(b.write(alice, 0, 10)), b.send(b.write(alice, testBlock, 10))
	if wait, _ := b.f.Wrote(b.now, first, Written{Err: errLater}); wait != BackoffFirst {
		t.Fatalf("delayed for %v", wait)
	}
	if wait, _ := b.f.Wrote(b.now, beside, Written{Err: errLater}); wait != 0 {
		t.Fatalf("delayed for %v more", wait)
	}
	want, last := BackoffFirst, BackoffFirst
	for range 10 {
		due := b.now.Add(last)
		b.f.Advance(due.Add(-1))
		if k, _ := b.f.Next(0); k >= 0 {
			t.Fatalf("a WRITE is sent %v too early", time.Duration(1))
		}
		b.f.Advance(due)
		k, _ := b.f.Next(0)
		e := b.f.Send(k)
		if k, _ := b.f.Next(0); k >= 0 {
			t.Fatal("a second WRITE is sent beside the first")
		}
		b.now = due
		want = min(2*want, BackoffLast)
		if last, _ = b.f.Wrote(b.now, e, Written{Err: errLater}); last != want {
			t.Fatalf("delayed for %v, want %v", last, want)
		}
	}
	b.f.Advance(b.now.Add(last))
	k, _ := b.f.Next(0)
	b.f.Wrote(b.now, b.f.Send(k), Written{Err: errFull})
	if k, _ := b.f.Next(0); k < 0 || b.f.State().Sending != Free {
		t.Errorf("state %v after an answer", b.f.State())
	}
}

// TestCrowded: a file that the server wants later takes its share of the memory
// and no more.
func TestCrowded(t *testing.T) {
	b := newBench(t)
	b.f.Wrote(b.now, b.send(b.write(alice, 0, 10)), Written{Err: errLater})
	n := 0
	for ; b.write(alice, int64(1+n)*testBlock, testBlock); n++ {
	}
	if most := b.f.config.MaxDirty / delayedShare; !b.f.Crowded() || n*testBlock > most+testBlock {
		t.Errorf("%d bytes taken, want about %d", n*testBlock, most)
	}
}

// TestSharedBuffer: what is appended to an extent does not grow into another one
// in the same buffer.
func TestSharedBuffer(t *testing.T) {
	b := newBench(t)
	b.put(alice, 0, bytes.Repeat([]byte{1}, 100))
	b.f.Wrote(b.now, b.send(true), Written{Ver: nfsclient.Verifier{1}})
	b.f.Wrote(b.now, b.send(b.write(alice, 30, 30)), Written{How: nfsclient.FileSync})
	b.beginCommit()
	b.f.Committed(nfsclient.Verifier{2}, nil, false) // both halves are dirty again
	if d := b.f.Dirty(); len(d) != 2 || d[0].buf != d[1].buf {
		t.Fatalf("%d dirty extents, want two in one buffer", len(d))
	}
	half := b.f.Send(1)
	b.put(alice, 30, bytes.Repeat([]byte{2}, 60))
	if !bytes.Equal(half.bytes(), bytes.Repeat([]byte{1}, 40)) {
		t.Error("a WRITE in flight was overwritten")
	}
	b.f.Wrote(b.now, half, Written{How: nfsclient.FileSync})
}

// TestShare: no more than its share of background writers is one file's.
func TestShare(t *testing.T) {
	b := newBench(t)
	for k := range 5 {
		b.write(alice, int64(k)*testBlock, testBlock)
	}
	n := 0
	for k, how := b.f.Next(0); k >= 0; k, how = b.f.Next(k) {
		if how != nfsclient.Unstable {
			t.Errorf("WRITE %d is %v", n, how)
		}
		b.f.Send(k)
		n++
	}
	if n != b.f.config.Share {
		t.Errorf("%d WRITEs in flight, want %d", n, b.f.config.Share)
	}
}

// TestAloneIsFileSync: what someone waits for is written FILE_SYNC just if it is
// all there is.
func TestAloneIsFileSync(t *testing.T) {
	for _, c := range []struct {
		extents int
		asked   bool
		want    nfsclient.Stable
	}{{1, true, nfsclient.FileSync}, {1, false, nfsclient.Unstable}, {2, true, nfsclient.Unstable}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			b := newBench(t)
			for k := range c.extents {
				b.write(alice, int64(k)*testBlock, 10)
			}
			if c.asked {
				b.f.Sync(b.f.Seq())
			} else {
				b.f.Tick(b.now, Short)
			}
			if k, how := b.f.Next(0); k < 0 || how != c.want {
				t.Errorf("extent %d is sent %v", k, how)
			}
		})
	}
}

// unstable makes bytes unstable, one extent for each writer.
func (b *bench) unstable(ver nfsclient.Verifier, by ...*Writer) {
	for k, w := range by {
		b.f.Wrote(b.now, b.send(b.write(w, int64(k)*testBlock, 10)), Written{Ver: ver})
	}
}

func (b *bench) beginCommit() nfsclient.Cred {
	if _, ok := b.f.BeginCommit(); !ok {
		b.t.Fatal("no COMMIT begins")
	}
	cr, ok := b.f.SendCommit()
	if !ok {
		b.t.Fatal("no COMMIT is sent")
	}
	return cr
}

// TestCommitCredentials: a COMMIT is sent as one user after the other until one
// is let, each once; what is wanted later comes again as the same one.
func TestCommitCredentials(t *testing.T) {
	for _, c := range []struct {
		name    string
		replies []error
		want    []uint32
		lost    bool
	}{
		{"first", []error{nil}, []uint32{1}, false},
		{"second", []error{errDenied, nil}, []uint32{1, 2}, false},
		{"none", []error{errDenied, errDenied}, []uint32{1, 2}, true},
		{"other error", []error{errDenied, errFull}, []uint32{1, 2}, true},
		{"later", []error{errLater, errDenied, errLater, errLater, nil}, []uint32{1, 1, 2, 2, 2}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.unstable(nfsclient.Verifier{1}, alice, alice, bob)
			asked := []uint32{b.beginCommit().UID}
			r := Committed{Again: true}
			for _, err := range c.replies {
				if !r.Again {
					t.Fatal("it ended early")
				}
				if r = b.f.Committed(nfsclient.Verifier{1}, err, false); r.Again {
					asked = append(asked, r.Cred.UID)
				}
			}
			if r.Again || r.Lost != c.lost || !slices.Equal(asked, c.want) || !b.f.Empty() {
				t.Errorf("asked as %v, want %v; %+v", asked, c.want, r)
			}
		})
	}
}

// TestMismatch: each further COMMIT that finds all data lost makes the next one
// wait longer, and one that finds all there ends that.
func TestMismatch(t *testing.T) {
	b := newBench(t)
	b.unstable(nfsclient.Verifier{1}, alice)
	for n, want := range []time.Duration{0, 0, BackoffFirst, 2 * BackoffFirst, 4 * BackoffFirst} {
		wait, ok := b.f.BeginCommit()
		if !ok || wait != want {
			t.Fatalf("COMMIT %d waits %v, want %v", n, wait, want)
		}
		b.f.SendCommit()
		if r := b.f.Committed(nfsclient.Verifier{2}, nil, false); r.Mistrusted != (n > 0) || r.Lost {
			t.Fatalf("COMMIT %d: %+v", n, r)
		}
		k, _ := b.f.Next(0)
		b.f.Wrote(b.now, b.f.Send(k), Written{Ver: nfsclient.Verifier{1}})
	}
	b.beginCommit()
	if r := b.f.Committed(nfsclient.Verifier{1}, nil, false); !r.Trusted || !b.f.Trusted() || b.f.CommitDelay() != 0 {
		t.Errorf("%+v, delay %v", r, b.f.CommitDelay())
	}
}

// TestWriterDoesNotDelayFsync: what replaces bytes while they are committed need
// not be on stable storage for those who waited for them.
func TestWriterDoesNotDelayFsync(t *testing.T) {
	b := newBench(t)
	b.unstable(nfsclient.Verifier{1}, alice)
	target := b.f.Seq()
	b.beginCommit()
	b.f.Wrote(b.now, b.send(b.write(alice, 0, 10)), Written{Ver: nfsclient.Verifier{1}})
	if got := b.f.Sync(target); got != Wait {
		t.Fatalf("step %v while the COMMIT is in flight", got)
	}
	b.f.Committed(nfsclient.Verifier{1}, nil, false)
	if got := b.f.Sync(target); got != Done {
		t.Errorf("step %v", got)
	}
	if got := b.f.Sync(b.f.Seq()); got != AskCommit {
		t.Errorf("step %v for the newer bytes", got)
	}
}

// TestWoken: whatever a waiter may have waited for wakes it, once.
func TestWoken(t *testing.T) {
	direct := func(b *bench) *Extent {
		e := Direct(*alice, b.lease(10), 10)
		if !b.f.Claim(e, 0) {
			t.Fatal("no room for a direct write")
		}
		return e
	}
	for _, c := range []struct {
		name  string
		until func(*bench) func()
	}{
		{"Wrote", func(b *bench) func() {
			e := b.send(b.write(alice, 0, 10))
			return func() { b.f.Wrote(b.now, e, Written{How: nfsclient.FileSync}) }
		}},
		{"Wrote, to be sent later", func(b *bench) func() {
			e := b.send(b.write(alice, 0, 10))
			return func() { b.f.Wrote(b.now, e, Written{Err: errLater}) }
		}},
		{"WroteDirect", func(b *bench) func() {
			e := direct(b)
			return func() { b.f.WroteDirect(e, Written{How: nfsclient.FileSync}) }
		}},
		{"WroteDirect, failed", func(b *bench) func() {
			e := direct(b)
			return func() { b.f.WroteDirect(e, Written{Err: errFull}) }
		}},
		{"Committed", func(b *bench) func() {
			b.unstable(nfsclient.Verifier{}, alice)
			b.beginCommit()
			return func() { b.f.Committed(nfsclient.Verifier{}, nil, false) }
		}},
		{"DropCommit", func(b *bench) func() {
			b.unstable(nfsclient.Verifier{}, alice)
			b.f.BeginCommit()
			return b.f.DropCommit
		}},
		{"SendCommit of nothing", func(b *bench) func() {
			b.f.BeginCommit()
			return func() { b.f.SendCommit() }
		}},
		{"DropTruncate", func(b *bench) func() {
			b.f.BeginTruncate()
			return b.f.DropTruncate
		}},
		{"EndTruncate", func(b *bench) func() {
			b.f.BeginTruncate()
			b.f.Truncate()
			return b.f.EndTruncate
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			happen := c.until(b)
			b.f.Woken()
			happen()
			if !b.f.Woken() || b.f.Woken() {
				t.Error("waiters are not woken once")
			}
		})
	}
}

// TestTick: by the clock and the memory that is left, what is sent and whether a
// COMMIT is worth it.
func TestTick(t *testing.T) {
	for _, c := range []struct {
		name   string
		age    time.Duration
		p      Pressure
		more   bool // something else is dirty
		sent   bool
		commit bool
	}{
		{"young", 0, Calm, false, false, false},
		{"old", time.Second + 1, Calm, false, false, true},
		{"old, and more", time.Second + 1, Calm, true, true, false},
		{"short", 0, Short, false, false, true},
		{"short, and more", 0, Short, true, true, false},
		{"starved", 0, Starved, true, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.unstable(nfsclient.Verifier{1}, alice)
			if c.more {
				b.write(alice, testBlock, 10)
			}
			if got := b.f.Tick(b.now.Add(c.age), c.p); got != c.commit {
				t.Errorf("a COMMIT: %v", got)
			}
			if k, _ := b.f.Next(0); k >= 0 != c.sent {
				t.Errorf("extent %d is sent", k)
			}
		})
	}
}

// TestTransfer: an extent is sent in as many parts as the server takes, and all
// over again when it restarts in between; nonsense is refused.
func TestTransfer(t *testing.T) {
	answer := func(n int, how nfsclient.Stable, ver byte) *nfsclient.WriteResult {
		return &nfsclient.WriteResult{N: n, Committed: how, Verifier: nfsclient.Verifier{ver}}
	}
	for _, c := range []struct {
		name    string
		answers []*nfsclient.WriteResult
		how     nfsclient.Stable
		ver     byte
		waits   []time.Duration
	}{
		{"whole", []*nfsclient.WriteResult{answer(100, nfsclient.FileSync, 9)}, nfsclient.FileSync, 0, nil},
		{"parts", []*nfsclient.WriteResult{answer(30, nfsclient.Unstable, 1), answer(70, nfsclient.FileSync, 9)}, nfsclient.Unstable, 1, nil},
		{"restart", []*nfsclient.WriteResult{answer(30, nfsclient.Unstable, 1), answer(70, nfsclient.Unstable, 2), answer(100, nfsclient.Unstable, 2)}, nfsclient.Unstable, 2, nil},
		{"restarts", []*nfsclient.WriteResult{
			answer(1, nfsclient.Unstable, 1), answer(1, nfsclient.Unstable, 2),
			answer(1, nfsclient.Unstable, 3), answer(1, nfsclient.Unstable, 4),
			answer(1, nfsclient.Unstable, 5), answer(1, nfsclient.Unstable, 6),
			answer(100, nfsclient.DataSync, 7)}, nfsclient.FileSync, 0, []time.Duration{BackoffFirst, 2 * BackoffFirst}},
	} {
		x := NewTransfer(100)
		var waits []time.Duration
		for k, a := range c.answers {
			if from, to := x.Rest(); from >= to {
				t.Fatalf("%s: nothing is left after %d answers", c.name, k)
			}
			wait, ok := x.Wrote(a)
			if !ok {
				t.Fatalf("%s: answer %d is refused", c.name, k)
			}
			if wait > 0 {
				waits = append(waits, wait)
			}
		}
		from, to := x.Rest()
		if how, ver := x.Result(); from < to || how != c.how || how == nfsclient.Unstable && ver[0] != c.ver || !slices.Equal(waits, c.waits) {
			t.Errorf("%s: [%d, %d) left, %v, verifier %v, waits %v", c.name, from, to, how, ver, waits)
		}
	}
	for _, n := range []int{-1, 0, 101} {
		x := NewTransfer(100)
		if _, ok := x.Wrote(answer(n, nfsclient.FileSync, 0)); ok {
			t.Errorf("%d bytes of 100 are taken for an answer", n)
		}
	}
}

// TestErrors: an opening is told of those since its mark.
func TestErrors(t *testing.T) {
	var e Errors
	if e.Since(0) != nil {
		t.Error("an error where there is none")
	}
	e.Add(errDenied)
	mark := e.Count()
	e.Add(errFull)
	if !errors.Is(e.Since(mark), errFull) || e.Since(e.Count()) != nil {
		t.Errorf("%v, %v", e.Since(mark), e.Since(e.Count()))
	}
}
