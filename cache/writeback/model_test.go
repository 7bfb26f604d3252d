package writeback

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

const (
	modelSize = 6 * testBlock
	maxLast   = 200 // with room for writes that go on
)

// world is a file, its server and its users, all on one goroutine: what happens
// next is drawn by lot, so that a seed repeats it.
type world struct {
	*bench
	r *rand.Rand

	// The server: what it has, what it has on stable storage, and what is on its
	// way to it.
	data, stable [modelSize]byte
	ver          nfsclient.Verifier
	writes       []*modelWrite
	commit       *modelCommit
	honest       bool // it does not crash, refuse or delay

	// What the file must read: each write has a number, which all its bytes are.
	want [modelSize]byte
	last byte              // number of the last write
	by   [modelSize]uint32 // who wrote
	lost [modelSize]bool   // of a WRITE that has failed

	syncs    []*modelSync
	blocked  *modelBlocked
	truncate int64 // what a truncation waits to cut to; -1: none
	retries  []time.Time
	reads    []*modelRead
	direct   *modelDirect
	failed   int
}

// modelSync is an fsync that waits.
type modelSync struct {
	target uint64
	need   [modelSize]byte // the write that must be on stable storage, or a later one
}

// modelBlocked is a write that waits.
type modelBlocked struct {
	by  *Writer
	off int64
	n   int
}

type modelWrite struct {
	e      *Extent
	direct bool
	how    nfsclient.Stable
	ver    nfsclient.Verifier // once the server has carried it out
	done   bool
}

type modelCommit struct {
	as   nfsclient.Cred
	sent bool // after CommitWaiting
	done bool
	ver  nfsclient.Verifier
}

type modelRead struct {
	off, end int64
	snap     Snapshot
	base     []byte // once the server has answered
	want     []byte // when it began
	touched  [modelSize]bool
}

type modelDirect struct {
	e   *Extent
	off int64
	n   int
}

func (w *world) dice(n int) bool { return w.r.IntN(n) == 0 }

// bad is a chance for the server to misbehave.
func (w *world) bad(n int) bool { return !w.honest && w.dice(n) }

// wrote says that by has written number no to [off, end); by is nil for nobody.
func (w *world) wrote(by *Writer, no byte, off, end int64) {
	for k := off; k < end; k++ {
		w.want[k], w.lost[k] = no, false
		if by != nil {
			w.by[k] = by.Cred.UID
		}
		for _, r := range w.reads {
			r.touched[k] = true
		}
	}
}

// forgo says that no fsync needs [off, end) any more.
func (w *world) forgo(off, end int64) {
	for _, s := range w.syncs {
		clear(s.need[off:end])
	}
}

// view is what a read of everything gives now.
func (w *world) view() []byte {
	got := bytes.Clone(w.data[:])
	w.f.Overlay(got, 0)
	if off := w.r.IntN(modelSize); w.f.Covers(int64(off), modelSize) {
		blank := make([]byte, modelSize-off)
		if w.f.Overlay(blank, int64(off)); !bytes.Equal(blank, got[off:]) {
			w.t.Fatalf("the layers do not cover all from %d on", off)
		}
	}
	return got
}

func (w *world) write() {
	by := alice
	if w.dice(3) {
		by = bob
	}
	off := w.r.Int64N(modelSize - 1)
	switch d := w.f.Dirty(); {
	case w.dice(3):
		off -= off % testBlock
	case w.dice(2) && len(d) > 0:
		off = min(d[w.r.IntN(len(d))].End(), modelSize-1)
	}
	w.blocked = &modelBlocked{by, off, int(1 + w.r.Int64N(min(2*testBlock, modelSize-off)))}
	w.goOn()
}

// goOn goes on with the write that waits.
func (w *world) goOn() {
	b := w.blocked
	if b == nil {
		return
	}
	n := w.put(b.by, b.off, bytes.Repeat([]byte{w.last + 1}, b.n))
	if n > 0 {
		w.last++
		w.wrote(b.by, w.last, b.off, b.off+int64(n))
	}
	b.off, b.n = b.off+int64(n), b.n-n
	if b.n == 0 {
		w.blocked = nil
	} else if w.f.State() == (State{}) && !w.f.Unsent() {
		w.t.Fatal("a write is held off by nothing")
	}
}

func (w *world) claim() {
	d := w.direct
	if d == nil {
		off := w.r.Int64N(modelSize - testBlock)
		d = &modelDirect{n: 1 + w.r.IntN(testBlock), off: off}
		l := w.lease(d.n)
		d.e = Direct(*alice, l, d.n)
		w.direct = d
	}
	if !w.f.Claim(d.e, d.off) {
		return
	}
	w.direct = nil
	w.last++
	copy(d.e.bytes(), bytes.Repeat([]byte{w.last}, d.n))
	w.wrote(alice, w.last, d.off, d.e.End())
	w.writes = append(w.writes, &modelWrite{e: d.e, direct: true, how: nfsclient.FileSync})
}

// pump sends what there is to send.
func (w *world) pump() {
	for k, how := w.f.Next(0); k >= 0; k, how = w.f.Next(k) {
		if w.bad(10) {
			return // no background writer
		}
		e := w.f.Send(k)
		if w.bad(10) {
			w.f.Unsend(e) // no goroutine
			return
		}
		if how == nfsclient.FileSync && len(w.writes) > 0 {
			w.t.Fatal("FILE_SYNC beside other WRITEs")
		}
		for _, o := range w.writes {
			if o.e.off < e.End() && e.off < o.e.End() {
				w.t.Fatal("two WRITEs in flight overlap")
			}
		}
		for k := e.off; k < e.End(); k++ {
			if w.by[k] != e.Cred().UID && !w.lost[k] {
				w.t.Fatalf("byte %d, which user %d wrote, is sent as user %d", k, w.by[k], e.Cred().UID)
			}
		}
		if s := w.f.State(); s.Truncation == Truncating || s.Sending == Delayed || s.Sending == Probing && len(w.writes) > 0 {
			w.t.Fatalf("a WRITE is sent in %v beside %d", s, len(w.writes))
		}
		w.writes = append(w.writes, &modelWrite{e: e, how: how})
	}
}

// carryOut has the server carry out one WRITE, not the oldest one first.
func (w *world) carryOut() {
	if len(w.writes) == 0 {
		return
	}
	x := w.writes[w.r.IntN(len(w.writes))]
	if x.done {
		return
	}
	if w.bad(20) {
		x.how = nfsclient.FileSync // more than was asked for
	}
	copy(w.data[x.e.off:], x.e.bytes())
	if x.how != nfsclient.Unstable {
		copy(w.stable[x.e.off:], x.e.bytes())
	}
	x.done, x.ver = true, w.ver
}

// reply ends one WRITE.
func (w *world) reply() {
	if len(w.writes) == 0 {
		return
	}
	k := w.r.IntN(len(w.writes))
	x := w.writes[k]
	var how Written
	switch {
	case w.bad(12) && !x.direct:
		how = Written{Err: errFull, Unknown: true} // given up on, carried out or not
	case x.done:
		how = Written{How: x.how, Ver: x.ver}
	case w.bad(4) && !x.direct:
		how = Written{Err: errLater}
	case w.bad(15):
		how = Written{Err: errFull}
	default:
		return
	}
	w.writes = append(w.writes[:k], w.writes[k+1:]...)
	if x.direct {
		w.f.WroteDirect(x.e, how)
	} else if wait, due := w.f.Wrote(w.now, x.e, how); wait > 0 {
		if !due.Equal(w.now.Add(wait)) {
			w.t.Fatalf("delayed for %v until %v, now %v", wait, due, w.now)
		}
		w.retries = append(w.retries, due)
	}
	if how.Err != nil && !how.Unknown && !TryLater(how.Err) {
		w.failed++
		w.lose(x.e.off, x.e.End())
	}
}

// lose takes what the file reads in [off, end) for what it must, as bytes of it
// were dropped. Until they are written again they may read as anything that they
// ever were: the server may have carried out a WRITE that was given up.
func (w *world) lose(off, end int64) {
	now := w.view()
	for k := off; k < end; k++ {
		if !w.f.UnsentIn(k, k+1) {
			w.wrote(nil, now[k], k, k+1)
			w.lost[k] = true
		}
	}
	w.forgo(off, end)
}

// wait asks for those who wait, as they have been woken, or have just come.
func (w *world) wait() {
	var still []*modelSync
	for _, s := range w.syncs {
		switch w.f.Sync(s.target) {
		case Done:
			for k, no := range s.need {
				if w.stable[k] < no {
					w.t.Fatalf("byte %d is on stable storage as of write %d, but fsync was said that it is as of %d", k, w.stable[k], no)
				}
			}
			continue
		case AskCommit:
			w.beginCommit()
		}
		still = append(still, s)
	}
	w.syncs = still
	w.goOn()
	if w.truncate >= 0 {
		if w.f.State().Truncation == NoTruncation && !w.f.BeginTruncate() {
			w.t.Fatal("no truncation begins")
		}
		if w.f.State().Truncation == Draining && w.f.Truncate() == Done && len(w.writes) > 0 {
			w.t.Fatal("a truncation begins beside WRITEs")
		}
	}
	if w.direct != nil {
		w.claim()
	}
	w.pump()
}

// sync is an fsync.
func (w *world) sync() {
	s := &modelSync{target: w.f.Seq(), need: w.want}
	for k, lost := range w.lost {
		if lost {
			s.need[k] = 0
		}
	}
	w.syncs = append(w.syncs, s)
	w.wait()
}

func (w *world) beginCommit() {
	if _, ok := w.f.BeginCommit(); ok {
		w.commit = &modelCommit{}
	}
}

// commits takes a COMMIT one step further.
func (w *world) commits() {
	c := w.commit
	switch {
	case c == nil:
	case !c.sent && w.bad(5):
		w.commit = nil
		w.f.DropCommit()
	case !c.sent:
		if c.as, c.sent = w.f.SendCommit(); !c.sent {
			w.commit = nil
		}
	case !c.done && !w.bad(3):
		w.stable = w.data
		c.done, c.ver = true, w.ver
	default:
		var err error
		unknown := false
		switch {
		case w.bad(8):
			err, unknown = errFull, true
		case c.done:
		case w.bad(2):
			err = errLater
		case w.bad(2):
			err = errDenied
		default:
			err = errFull
		}
		w.departed = w.departed[:0]
		r := w.f.Committed(c.ver, err, unknown)
		if r.Again {
			if TryLater(err) != (r.Wait > 0) {
				w.t.Fatalf("a COMMIT that ended with %v comes again after %v", err, r.Wait)
			}
			*c = modelCommit{as: r.Cred, sent: true}
			return
		}
		w.commit = nil
		if r.Lost && (err == nil || unknown) {
			w.t.Fatalf("data is lost by %v", err)
		}
		if r.Lost {
			w.failed++
			for _, g := range w.departed {
				w.lose(g.off, g.end)
			}
		}
	}
}

// cut has a truncation that may go on come to its end.
func (w *world) cut() {
	switch {
	case w.truncate < 0:
	case w.f.State().Truncation == Draining && w.dice(20):
		w.f.DropTruncate()
		w.truncate = -1
	case w.f.State().Truncation == Truncating:
		if !w.bad(5) {
			clear(w.data[w.truncate:])
			clear(w.stable[w.truncate:])
			w.wrote(nil, 0, w.truncate, modelSize)
			w.forgo(w.truncate, modelSize)
			w.f.Truncated(w.truncate)
		}
		w.f.EndTruncate()
		w.truncate = -1
	}
}

// read takes a read one step further: begun, answered by the server, done.
func (w *world) read() {
	if len(w.reads) < 3 && w.dice(2) {
		off := w.r.Int64N(modelSize - 1)
		r := &modelRead{off: off, end: off + 1 + w.r.Int64N(modelSize-off)}
		r.end = min(r.end, modelSize)
		r.snap = w.f.Snapshot(r.off, r.end)
		r.want = bytes.Clone(w.want[r.off:r.end])
		w.reads = append(w.reads, r)
		return
	}
	if len(w.reads) == 0 {
		return
	}
	k := w.r.IntN(len(w.reads))
	r := w.reads[k]
	if r.base == nil {
		r.base = bytes.Clone(w.data[r.off:r.end])
		return
	}
	r.snap.Overlay(r.base, r.off)
	w.f.Overlay(r.base, r.off)
	w.f.Forget(&r.snap)
	w.reads = append(w.reads[:k], w.reads[k+1:]...)
	for k := range r.base {
		if !r.touched[r.off+int64(k)] && r.base[k] != r.want[k] {
			w.t.Fatalf("a read of byte %d gave %d, want %d", r.off+int64(k), r.base[k], r.want[k])
		}
	}
}

// crash has the server forget what is not on stable storage.
func (w *world) crash() {
	w.data = w.stable
	w.ver[0]++
}

func (w *world) tick() {
	w.now = w.now.Add(time.Duration(w.r.Int64N(int64(300 * time.Millisecond))))
	for k := 0; k < len(w.retries); k++ {
		if due := w.retries[k]; !w.now.Before(due) {
			w.f.Advance(due)
			w.retries = append(w.retries[:k], w.retries[k+1:]...)
			k--
		}
	}
	if !w.honest && w.f.Tick(w.now, Pressure(w.r.IntN(3))) {
		w.beginCommit()
	}
	w.pump()
}

func (w *world) step() {
	switch n := w.r.IntN(40); {
	case n < 8:
		if w.blocked == nil && w.last < maxLast {
			w.write()
			w.pump()
		}
	case n < 9:
		if w.direct == nil && w.last < maxLast {
			w.claim()
			w.pump()
		}
	case n < 16:
		w.carryOut()
	case n < 23:
		w.reply()
	case n < 28:
		w.commits()
	case n < 30:
		w.cut()
	case n < 34:
		w.read()
	case n < 36:
		w.tick()
	case n < 38:
		if len(w.syncs) < 3 {
			w.sync()
		}
	case n < 39:
		if w.truncate < 0 && w.f.BeginTruncate() {
			w.truncate = w.r.Int64N(modelSize)
			w.wait()
		}
	case !w.honest && w.dice(3):
		w.crash()
	}
	if w.f.Woken() {
		w.wait()
	}
	w.check()
}

func (w *world) check() {
	for _, l := range []layer{w.f.dirty, w.f.flight, w.f.unstable} {
		for k := 1; k < len(l); k++ {
			if l[k-1].End() > l[k].off {
				w.t.Fatal("extents of a layer overlap")
			}
		}
	}
	if !w.f.State().legal() {
		w.t.Fatalf("state %v", w.f.State())
	}
	if w.f.State().Sending != Free && !w.f.Unsent() {
		w.t.Fatal("the file waits to send nothing")
	}
	got := w.view()
	if bytes.Equal(got, w.want[:]) {
		return
	}
	for k := range got {
		switch {
		case got[k] == w.want[k]:
		case !w.lost[k]:
			w.t.Fatalf("byte %d reads %d, want %d", k, got[k], w.want[k])
		default:
			w.wrote(nil, got[k], int64(k), int64(k)+1)
			w.lost[k] = true
		}
	}
}

// rest goes on, with a server that does what it is asked, until nobody waits.
func (w *world) rest() {
	w.honest = true
	for n := 0; len(w.syncs)+len(w.writes)+len(w.reads) > 0 || w.blocked != nil || w.commit != nil || w.direct != nil || w.truncate >= 0; n++ {
		if n > 20_000 {
			w.t.Fatalf("no rest in %v: %d fsyncs wait, %d WRITEs in flight, truncation to %d, a write waits: %v",
				w.f.State(), len(w.syncs), len(w.writes), w.truncate, w.blocked != nil)
		}
		switch w.r.IntN(6) {
		case 0:
			w.carryOut()
		case 1:
			w.reply()
		case 2:
			w.commits()
		case 3:
			w.tick()
		case 4:
			w.cut()
		case 5:
			if len(w.reads) > 0 {
				w.read()
			}
		}
		if w.f.Woken() {
			w.wait()
		}
		w.check()
	}
}

// run does steps at random, then has all reach stable storage.
func (w *world) run(steps int) {
	w.truncate = -1
	for range steps {
		w.step()
	}
	w.sync()
	w.rest()
	w.sync() // of the write that waited
	w.rest()
	if !w.f.Empty() || w.f.State() != (State{}) {
		w.t.Fatalf("not empty at the end, in %v", w.f.State())
	}
}

// TestModel: whatever users, server and network do in whatever order, reads see
// what was written, what fsync acknowledges is on stable storage, WRITEs that
// overlap are never in flight together, nobody waits for ever, and no buffer is
// lost.
func TestModel(t *testing.T) {
	rounds, failed := 25, 0
	if testing.Short() {
		rounds = 10
	}
	for _, seed := range seeds(rounds) {
		w := &world{bench: newBench(t), r: rand.New(rand.NewPCG(seed, 1))}
		func() {
			ended := false
			defer sayHow(t, seed, &ended)
			w.run(400)
			ended = true
		}()
		failed += w.failed
	}
	if *seedFlag == 0 && failed == 0 {
		t.Error("no call has failed in any round")
	}
}
