package verbstest

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
)

// ErrFault is at the bottom of every error that a Faults made.
var ErrFault = errors.New("injected fault")

// Faults says what goes wrong on a device that Faulty wraps. The zero Faults
// does nothing; each fault is armed by its method, at any time, and counts from
// then on over all connections of the device.
type Faults struct {
	mu          sync.Mutex
	failDials   int
	dials       int
	cutSends    int // cut when this many more Sends are posted; 0 means never
	cutWaits    int
	swallow     int // swallow the Send after so many, less one; 0 means none
	delay       time.Duration
	hold        chan struct{}
	private     func([]byte) []byte
	swallowed   int
	cuts        int
	connections map[*faultyConn]bool
}

// FailDials has the next k Dials fail with a *verbs.ConnError.
func (f *Faults) FailDials(k int) { f.set(func() { f.failDials = k }) }

// CutAfterSends cuts the connection on which the n-th Send from now is posted,
// before that Send leaves.
func (f *Faults) CutAfterSends(n int) { f.set(func() { f.cutSends = n }) }

// CutAfterCompletions cuts the connection whose Wait returns the n-th
// completion from now; that one is still returned.
func (f *Faults) CutAfterCompletions(n int) { f.set(func() { f.cutWaits = n }) }

// SwallowSend has the n-th Send from now vanish: it completes here and never
// arrives.
func (f *Faults) SwallowSend(n int) { f.set(func() { f.swallow = n }) }

// lateness is what DelayCompletions and HoldCompletions have set.
func (f *Faults) lateness() (time.Duration, chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.delay, f.hold
}

// DelayCompletions has each Wait return late by d.
func (f *Faults) DelayCompletions(d time.Duration) { f.set(func() { f.delay = d }) }

// HoldCompletions keeps every Wait from returning completions until release is
// called, or its connection ends.
func (f *Faults) HoldCompletions() (release func()) {
	ch := make(chan struct{})
	f.set(func() { f.hold = ch })
	var once sync.Once
	return func() {
		once.Do(func() {
			f.set(func() {
				if f.hold == ch {
					f.hold = nil
				}
			})
			close(ch)
		})
	}
}

// CorruptPrivateData has change make what this side sees of the peer's
// private data; nil ends that.
func (f *Faults) CorruptPrivateData(change func([]byte) []byte) { f.set(func() { f.private = change }) }

// Cut cuts all connections now, and returns how many.
func (f *Faults) Cut() int {
	f.mu.Lock()
	var all []*faultyConn
	for c := range f.connections {
		all = append(all, c)
	}
	f.mu.Unlock()
	for _, c := range all {
		c.cut()
	}
	return len(all)
}

// Counts returns how many Dials were tried, connections cut and Sends swallowed.
func (f *Faults) Counts() (dials, cuts, swallowed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dials, f.cuts, f.swallowed
}

func (f *Faults) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// Faulty wraps d so that f can make it fail. Windows and regions are d's own.
func Faulty(d verbs.Device, f *Faults) verbs.Device { return &faultyDevice{d, f} }

type faultyDevice struct {
	verbs.Device
	f *Faults
}

func (d *faultyDevice) Dial(ctx context.Context, to netip.AddrPort, o verbs.ConnOptions) (verbs.Conn, error) {
	d.f.mu.Lock()
	d.f.dials++
	fail := d.f.failDials > 0
	if fail {
		d.f.failDials--
	}
	d.f.mu.Unlock()
	if fail {
		return nil, &verbs.ConnError{Op: "dial", Remote: to, Err: ErrFault}
	}
	return d.f.connect(o, func(o verbs.ConnOptions) (verbs.Conn, error) { return d.Device.Dial(ctx, to, o) })
}

func (d *faultyDevice) Listen(at netip.AddrPort, o verbs.ListenOptions) (verbs.Listener, error) {
	l, err := d.Device.Listen(at, o)
	if err != nil {
		return nil, err
	}
	return &faultyListener{l, d.f}, nil
}

type faultyListener struct {
	verbs.Listener
	f *Faults
}

func (l *faultyListener) Accept(ctx context.Context) (verbs.Request, error) {
	r, err := l.Listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return &faultyRequest{r, l.f}, nil
}

type faultyRequest struct {
	verbs.Request
	f *Faults
}

func (r *faultyRequest) PrivateData() []byte { return r.f.privateData(r.Request.PrivateData()) }

func (r *faultyRequest) Accept(ctx context.Context, o verbs.ConnOptions) (verbs.Conn, error) {
	return r.f.connect(o, func(o verbs.ConnOptions) (verbs.Conn, error) { return r.Request.Accept(ctx, o) })
}

func (f *Faults) privateData(b []byte) []byte {
	f.mu.Lock()
	change := f.private
	f.mu.Unlock()
	if change == nil {
		return b
	}
	return change(append([]byte(nil), b...))
}

// connect makes the wrapper first, as Prepare is to see it, too.
func (f *Faults) connect(o verbs.ConnOptions, dial func(verbs.ConnOptions) (verbs.Conn, error)) (verbs.Conn, error) {
	c := &faultyConn{f: f, gone: make(chan struct{})}
	if prepare := o.Prepare; prepare != nil {
		o.Prepare = func(q verbs.QP) error {
			c.qp = q
			return prepare(c)
		}
	}
	inner, err := dial(o)
	if err != nil {
		return nil, err
	}
	c.inner, c.qp = inner, inner
	f.set(func() {
		if f.connections == nil {
			f.connections = make(map[*faultyConn]bool)
		}
		f.connections[c] = true
	})
	return c, nil
}
