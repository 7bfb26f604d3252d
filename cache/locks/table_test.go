package locks

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/ranges"
)

const (
	un = nfsclient.Unlocked
	rd = nfsclient.ReadLock
	wr = nfsclient.WriteLock
)

const toEOF = math.MaxUint64

func lock(typ nfsclient.LockType, first, last uint64) Lock {
	return Lock{Type: typ, First: first, Last: last}
}

// submit submits a request to a file that has no name in these tests.
func submit(t *Table, owner Owner, l Lock, wait bool) (*Request, Effects) {
	r := &Request{Owner: owner, Lock: l, Wait: wait, PID: uint32(owner)}
	return r, t.Submit("f", r)
}

// take has the server grant a request that must go.
func take(tb testing.TB, t *Table, owner Owner, l Lock) Effects {
	tb.Helper()
	r, _ := submit(t, owner, l, false)
	if r.State != Going {
		tb.Fatalf("owner %d, %v: state %d", owner, l, r.State)
	}
	return t.Finish(r, true)
}

// TestNothingIsHeldBeforeTheServerHasGranted: a request that fails leaves what was
// held, and others wait for its end.
func TestNothingIsHeldBeforeTheServerHasGranted(t *testing.T) {
	var tab Table
	take(t, &tab, 1, lock(rd, 0, 9))
	up, _ := submit(&tab, 1, lock(wr, 0, 9), false)
	other, _ := submit(&tab, 2, lock(rd, 0, 9), false)
	if up.State != Going || other.State != Queued {
		t.Fatalf("states %d, %d", up.State, other.State)
	}
	if e := tab.Finish(up, false); len(e.Changed) != 1 || other.State != Going {
		t.Errorf("after a failure: %v, state %d", e, other.State)
	}
	if got := tab.Holds("f", 1); !slices.Equal(got, ranges.Set{{First: 0, Last: 9}}) {
		t.Errorf("holds %v", got)
	}
	tab.Finish(other, true)
	// What is being given up is not held, and not free either.
	give, _ := submit(&tab, 1, lock(un, 0, toEOF), false)
	third, _ := submit(&tab, 3, lock(rd, 0, 0), false)
	if len(tab.Holds("f", 1)) != 0 || give.State != Going || third.State != Queued {
		t.Errorf("holds %v, states %d, %d", tab.Holds("f", 1), give.State, third.State)
	}
	if tab.Finish(give, false); third.State != Going {
		t.Errorf("state %d", third.State)
	}
}

// TestWaitersGoInOrder: those that wait are let go in the order in which they came,
// readers together.
func TestWaitersGoInOrder(t *testing.T) {
	var tab Table
	take(t, &tab, 1, lock(wr, 0, toEOF))
	var all []*Request
	for k, typ := range []nfsclient.LockType{rd, rd, wr, rd} {
		r, _ := submit(&tab, Owner(k+2), lock(typ, 0, 9), true)
		all = append(all, r)
	}
	e := take(t, &tab, 1, lock(un, 0, toEOF))
	if !slices.Equal(e.Changed, []*Request{all[0], all[1], all[3]}) {
		t.Fatalf("%d go", len(e.Changed))
	}
	for _, r := range e.Changed {
		if tab.Finish(r, true); all[2].State != Queued {
			t.Fatal("the writer goes beside readers")
		}
	}
	for _, owner := range []Owner{2, 3, 5} {
		take(t, &tab, owner, lock(un, 0, toEOF))
	}
	if all[2].State != Going {
		t.Errorf("the writer: state %d", all[2].State)
	}
}

// TestPollingAtTheServer: who waits at the server makes waiters wait and nobody
// else, and gives way to what its own owner gives up.
func TestPollingAtTheServer(t *testing.T) {
	var tab Table
	first, _ := submit(&tab, 1, lock(wr, 0, 99), true)
	tab.Poll(first)
	waits, _ := submit(&tab, 2, lock(wr, 0, 9), true)
	tries, _ := submit(&tab, 3, lock(rd, 0, 9), false)
	if waits.State != Queued || tries.State != Going {
		t.Fatalf("states %d, %d", waits.State, tries.State)
	}
	tab.Finish(tries, false)
	gives, e := submit(&tab, 1, lock(un, 50, 50), false)
	if gives.State != Queued || !slices.Equal(e.Interrupt, []*Request{first}) {
		t.Fatalf("state %d, %v", gives.State, e)
	}
	if e := tab.Finish(first, false); !slices.Contains(e.Changed, gives) || gives.State != Going {
		t.Fatalf("state %d", gives.State)
	}
	tab.Submit("f", first)
	if first.State != Queued {
		t.Fatalf("state %d", first.State)
	}
	tab.Finish(gives, true)
	if waits.State != Going || first.State != Queued {
		t.Errorf("states %d, %d", waits.State, first.State)
	}
}

// TestDeadlock: a circle of owners is found, over files too, and not with flock(2).
func TestDeadlock(t *testing.T) {
	var tab Table
	for k := range 3 {
		r := &Request{Owner: Owner(k), Lock: lock(wr, 0, 0)}
		h := nfsclient.Handle(fmt.Sprint(k))
		tab.Submit(h, r)
		tab.Finish(r, true)
	}
	ask := func(owner int, h string, flock bool) *Request {
		r := &Request{Owner: Owner(owner), Lock: lock(rd, 0, 9), Wait: true, Flock: flock}
		tab.Submit(nfsclient.Handle(h), r)
		return r
	}
	a, b := ask(0, "1", false), ask(1, "2", false)
	if f := ask(2, "0", true); f.State != Queued {
		t.Errorf("flock: state %d", f.State)
	} else {
		tab.Withdraw(f)
	}
	if c := ask(2, "0", false); c.State != Deadlocked {
		t.Errorf("state %d", c.State)
	}
	tab.Withdraw(b)
	if c := ask(2, "0", false); c.State != Queued || a.State != Queued {
		t.Errorf("states %d, %d", c.State, a.State)
	}
}

// TestNoDeadlockByUnlock: what an owner gives up waits for its own request, and not for
// those who have locks there.
func TestNoDeadlockByUnlock(t *testing.T) {
	var tab Table
	take(t, &tab, 1, lock(wr, 0, 0))
	take(t, &tab, 2, lock(wr, 20, 20))
	submit(&tab, 1, lock(rd, 1, 9), false) // going
	if r, _ := submit(&tab, 1, lock(un, 1, toEOF), false); r.State != Queued {
		t.Fatalf("state %d", r.State)
	}
	if r, _ := submit(&tab, 2, lock(wr, 0, 0), true); r.State != Queued {
		t.Errorf("state %d", r.State)
	}
}

var seedFlag = flag.Uint64("seed", 0, "of TestModel; 0 is a random one")

// TestModel does things at random and compares what is held with a map of bytes, and
// who waits with who must.
func TestModel(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		newModel(t, rng).run(200)
	}
}

const (
	modelOwners = 4
	modelBytes  = 12 // the last stands for all to the end
)

// model is what the server and the owners of a file are in, as bytes.
type model struct {
	t     *testing.T
	rng   *rand.Rand
	tab   Table
	bytes [modelOwners][modelBytes]nfsclient.LockType
	open  []*Request // submitted, and not at their end
}

func newModel(t *testing.T, rng *rand.Rand) *model { return &model{t: t, rng: rng} }

func (m *model) run(steps int) {
	for range steps {
		m.step()
		m.check()
	}
	for len(m.open) > 0 { // everything comes to its end
		n := len(m.open)
		for _, r := range slices.Clone(m.open) {
			switch {
			case !slices.Contains(m.open, r):
			case r.State == Going || r.State == Polling:
				m.finish(r, false)
			case r.State == Queued:
				m.done(r, m.tab.Withdraw(r))
			}
			m.check()
		}
		if len(m.open) >= n {
			m.t.Fatal("requests do not end")
		}
	}
	for o := range modelOwners {
		if held := m.tab.Holds("f", Owner(o)); len(held) > 0 {
			take(m.t, &m.tab, Owner(o), lock(un, 0, toEOF))
		}
	}
	if m.tab.Files() != 0 || len(m.tab.waits) != 0 {
		m.t.Fatalf("%d files, %d waits are left", m.tab.Files(), len(m.tab.waits))
	}
}

func (m *model) step() {
	if len(m.open) > 0 && m.rng.IntN(3) > 0 {
		r := m.open[m.rng.IntN(len(m.open))]
		switch {
		case r.State == Queued && m.rng.IntN(4) == 0:
			m.done(r, m.tab.Withdraw(r))
		case r.State == Going && r.Wait && !r.unlocks() && m.rng.IntN(3) == 0:
			m.after(m.tab.Poll(r))
		case r.State == Going, r.State == Polling:
			m.finish(r, m.rng.IntN(4) > 0)
		}
		return
	}
	first := m.rng.IntN(modelBytes)
	last := first + m.rng.IntN(modelBytes-first)
	r := &Request{Owner: Owner(m.rng.IntN(modelOwners)), Wait: m.rng.IntN(2) == 0,
		Lock: lock(nfsclient.LockType(m.rng.IntN(3)), uint64(first), uint64(last))}
	if last == modelBytes-1 {
		r.Lock.Last = toEOF
	}
	m.open = append(m.open, r)
	e := m.tab.Submit("f", r)
	e.Changed = append(e.Changed, r)
	m.after(e)
}

// finish ends a request as a server that has nobody else's locks would, or with a
// failure.
func (m *model) finish(r *Request, granted bool) {
	if granted && !r.unlocks() {
		for b := r.Lock.First; b <= min(r.Lock.Last, modelBytes-1); b++ {
			for o := range modelOwners {
				has := m.bytes[o][b]
				if Owner(o) != r.Owner && has != un && (has == wr || r.Lock.Type == wr) {
					granted = false // passed one that polls
				}
			}
		}
	}
	if granted && !r.unlocks() {
		m.setBytes(r)
	}
	m.done(r, m.tab.Finish(r, granted))
}

func (m *model) setBytes(r *Request) {
	for b := r.Lock.First; b <= min(r.Lock.Last, modelBytes-1); b++ {
		m.bytes[r.Owner][b] = r.Lock.Type
	}
}

func (m *model) done(r *Request, e Effects) {
	m.open = remove(m.open, r)
	m.after(e)
}

func (m *model) after(e Effects) {
	for _, r := range e.Changed {
		switch r.State {
		case Going:
			if r.unlocks() {
				m.setBytes(r)
			}
		case Refused, Deadlocked:
			m.open = remove(m.open, r)
		}
	}
	for _, r := range e.Interrupt {
		if r.State == Polling {
			m.finish(r, false)
		}
	}
}

// check compares the table with the bytes.
func (m *model) check() {
	m.t.Helper()
	for o := range modelOwners {
		var bytes [modelBytes]nfsclient.LockType
		held := m.tab.Holds("f", Owner(o))
		for k, l := range held {
			if k > 0 && (l.First <= held[k-1].Last || l.First == held[k-1].Last+1 && l.Exclusive == held[k-1].Exclusive) {
				m.t.Fatalf("not in order, or not joined: %v", held)
			}
			for b := l.First; b <= min(l.Last, modelBytes-1); b++ {
				bytes[b] = lockOf(l).Type
			}
		}
		if bytes != m.bytes[o] {
			m.t.Fatalf("owner %d holds %v, want %v", o, bytes, m.bytes[o])
		}
	}
	for k, a := range m.open {
		if a.State == Queued && !m.blocked(a) {
			m.t.Fatalf("%+v waits for nothing", a)
		}
		for _, b := range m.open[:k] {
			if a.State == Going && b.State == Going && overlap(a.Lock, b.Lock) && (a.Owner == b.Owner || conflict(a.Lock, b.Lock)) {
				m.t.Fatalf("%+v and %+v go at once", a, b)
			}
		}
	}
}

// blocked says whether a queued request has a reason to wait.
func (m *model) blocked(r *Request) bool {
	if _, held := m.tab.Conflicting("f", r.Owner, r.Lock); held && !r.unlocks() {
		return true
	}
	return slices.ContainsFunc(m.open, func(g *Request) bool {
		return (g.State == Going || g.State == Polling) && overlap(g.Lock, r.Lock)
	})
}
