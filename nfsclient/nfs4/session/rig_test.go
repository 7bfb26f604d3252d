package session

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/testlog"
	"github.com/rdmafs/rdmafs/transport"
)

// guard bounds how long a test waits for what must happen.
const guard = 30 * time.Second

// rig is a session with the server of server_test.go.
type rig struct {
	*testing.T
	v     *server
	clock *clock
	cf    Config
	s     *Session
	ctx   context.Context
}

// newRig opens a session after prepare has changed server and Config.
func newRig(t *testing.T, prepare func(r *rig)) *rig {
	ctx, cancel := context.WithTimeout(t.Context(), guard)
	r := &rig{T: t, v: newServer(), clock: newClock(), ctx: ctx}
	r.cf = Config{Caller: r.v, Minor: 1, Owner: []byte("owner"), Verifier: nfsclient.Verifier{1}, Host: "server", Slots: 8, Clock: r.clock,
		Machine: &transport.AuthSys{Machine: "client"}}
	live := true
	r.cf.Log = testlog.To(func(line string) {
		if live {
			t.Log(line)
		}
	})
	if prepare != nil {
		prepare(r)
	}
	s, err := Open(ctx, r.cf)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	r.s = s
	t.Cleanup(func() {
		// t.Context has ended by now.
		last, end := context.WithTimeout(context.Background(), guard)
		defer end()
		if err := s.Close(last); err != nil {
			t.Errorf("closing: %v", err)
		}
		cancel()
		live = false
		if n := sessionGoroutines(); n != "" {
			t.Errorf("goroutines are left:\n%s", n)
		}
		r.v.mu.Lock()
		defer r.v.mu.Unlock()
		for _, w := range r.v.wrong {
			t.Errorf("the server had to answer %s", w)
		}
		if len(r.v.sessions)+len(r.v.clients) != 0 {
			t.Errorf("%d sessions and %d clients are left at the server", len(r.v.sessions), len(r.v.clients))
		}
	})
	return r
}

// sessionGoroutines are the goroutines that Close must have joined.
func sessionGoroutines() string {
	buf := make([]byte, 1<<20)
	var left []string
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "(*Session).run") {
			left = append(left, g)
		}
	}
	return strings.Join(left, "\n\n")
}

// remove is a compound that must be carried out once.
func remove(name string) *Call {
	return &Call{Ops: []wire.Operation{&wire.PutRootFH{}, &wire.Remove{Name: name}}, Cache: true}
}

// must fails the test if a call does.
func (r *rig) must(c *Call) {
	r.Helper()
	if err := r.s.Do(r.ctx, c); err != nil || c.Status != wire.OK || c.Done != len(c.Ops) {
		r.Fatalf("%v, %v, %d of %d operations", err, c.Status, c.Done, len(c.Ops))
	}
}

// once checks that names were removed exactly once.
func (r *rig) once(names ...string) {
	r.Helper()
	r.v.mu.Lock()
	defer r.v.mu.Unlock()
	for _, n := range names {
		if r.v.done[n] != 1 {
			r.Errorf("%q was removed %d times", n, r.v.done[n])
		}
	}
}

func (r *rig) await(what string, cond func() bool) {
	r.Helper()
	if err := r.v.await(r.ctx, cond); err != nil {
		r.Fatalf("waiting for %s: %v", what, err)
	}
}

// many makes n calls at once, and returns a channel with the error of each.
func (r *rig) many(n int, name string) (names []string, errs chan error) {
	errs = make(chan error, n)
	for i := range n {
		c := remove(fmt.Sprintf("%s%d", name, i))
		names = append(names, fmt.Sprintf("%s%d", name, i))
		go func() {
			err := r.s.Do(r.ctx, c)
			if err == nil && c.Status != wire.OK {
				err = errors.New(wire.StatusName(c.Status))
			}
			errs <- err
		}()
	}
	return names, errs
}

func (r *rig) join(n int, errs chan error) {
	r.Helper()
	for range n {
		if err := <-errs; err != nil {
			r.Error(err)
		}
	}
}

// has reports whether a compound removes name.
func has(c *wire.Compound, name string) bool {
	for _, o := range c.Ops {
		if m, ok := o.(*wire.Remove); ok && m.Name == name {
			return true
		}
	}
	return false
}

// lone reports whether a compound is SEQUENCE alone.
func lone(c *wire.Compound) (*wire.Sequence, bool) {
	q, ok := c.Ops[0].(*wire.Sequence)
	return q, ok && len(c.Ops) == 1
}
