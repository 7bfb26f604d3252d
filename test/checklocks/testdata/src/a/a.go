// Package a has calls that are right and calls that are wrong.
package a

import "sync"

type table struct {
	mu sync.Mutex
	n  int
}

type plain struct{ t *table }

type own struct{ inner sync.Mutex }

func (o *own) Lock()   { o.inner.Lock() }
func (o *own) Unlock() { o.inner.Unlock() }

type embeds struct {
	sync.RWMutex
	mu own
}

// add adds; mu is held.
func (t *table) add() { t.n++ }

// addTwice calls add; mu is held.
func (t *table) addTwice() {
	t.add()
	t.add()
}

// part is entered with a lock of another type: table.mu is held.
func (p plain) part() { p.t.add() }

// byName names it: t.mu is held, after a parameter's name.
func byName(t *table) { t.add() }

// unknown: no lock is called other.mu is held.
func unknown() {} // want `other.mu is held: no such lock`

// alone waits; mu is not held.
func (t *table) alone() {}

// quiet is called with no lock held.
func quiet() {}

// busy is held until somebody comes, and mu is held while it works.
func busy() {}

// over is called where e.mu is held.
func (e *embeds) over() {}

func right(t *table, p plain) {
	t.mu.Lock()
	t.add()
	p.part()
	byName(t)
	t.mu.Unlock()
	t.alone()
	quiet()
}

func deferred(t *table) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add()
	func() { t.add() }()
}

func wrong(t *table) {
	t.add() // want `add is called without table.mu`
	t.mu.Lock()
	t.alone() // want `alone is called with table.mu held`
	quiet()   // want `quiet is called with table.mu held`
	t.mu.Unlock()
	t.add() // want `add is called without table.mu`
}

func branches(t *table, b bool) {
	if b {
		t.mu.Lock()
		t.add()
	}
	t.add() // want `add is called without table.mu`
	if b {
		t.mu.Unlock()
	}
}

func early(t *table, b bool) {
	t.mu.Lock()
	if b {
		t.mu.Unlock()
		return
	}
	t.add()
	t.mu.Unlock()
}

func loop(t *table) {
	t.mu.Lock()
	for range 3 {
		t.add() // want `add is called without table.mu`
		t.mu.Unlock()
	}
	for range 3 {
		t.mu.Lock()
		t.add()
		t.mu.Unlock()
	}
}

func elsewhere(t *table) {
	t.mu.Lock()
	defer t.mu.Unlock()
	go t.add()              // want `add is called without table.mu`
	go func() { t.add() }() // want `add is called without table.mu`
	var wg sync.WaitGroup
	wg.Go(func() { t.add() }) // want `add is called without table.mu`
}

func try(t *table) {
	if t.mu.TryLock() {
		t.add()
		t.mu.Unlock()
	}
	if !t.mu.TryLock() {
		t.add() // want `add is called without table.mu`
		return
	}
	t.add()
	t.mu.Unlock()
}

func (t *table) lock()   { t.mu.Lock() }
func (t *table) unlock() { t.mu.Unlock() }

// leave is entered where mu is held.
func (t *table) leave() { t.mu.Unlock() }

func helpers(t *table) {
	t.lock()
	t.add()
	t.unlock()
	t.add() // want `add is called without table.mu`
}

// handOver says that mu is held, and lets go of it.
func (t *table) handOver() { t.unlock() }

func handsOver(t *table) {
	t.lock()
	t.handOver()
	t.add() // want `add is called without table.mu`
}

func kinds(e *embeds) {
	e.Lock()
	e.over() // want `over is called without embeds.mu`
	e.Unlock()
	e.mu.Lock()
	e.over()
	e.mu.Unlock()
}

// sometimes needs a lock if b; mu is held if so.
func (t *table) sometimes(b bool) {
	if b {
		t.add()
	}
}

func ignores(t *table) {
	t.add() //checklocks:ignore nobody else has t
}

// nested names a field of a field: n.e.mu is held.
func nested(n *struct{ e embeds }) { n.e.over() }

// with is called with mu held.
func (e *embeds) with() { e.over() }

func last(n *struct{ e embeds }) {
	nested(n)  // want `nested is called without embeds.mu`
	n.e.with() // want `with is called without embeds.mu`
	(&table{}).sometimes(true)
}

// locked calls f.
func locked(t *table, f func(n int)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(1)
}

// twice calls f with the lock held and without.
func twice(t *table, f func(n int)) {
	t.mu.Lock()
	f(1)
	t.mu.Unlock()
	f(2)
}

func passes(t *table) {
	locked(t, func(int) { t.add() })
	twice(t, func(int) { t.add() }) // want `add is called without table.mu`
}
