package nfstest

import (
	"fmt"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
)

// opNumber is the operation of a name.
func opNumber(t *testing.T, name string) wire.Op {
	for op := wire.OpAccess; op <= wire.OpRemoveXattr; op++ {
		if op.String() == name {
			return op
		}
	}
	t.Fatalf("no operation %s", name)
	return 0
}

// cuts4 are the moments at which a connection is lost.
var cuts4 = []struct {
	name   string
	before func(o *own4, op wire.Op)
	after  func(o *own4)
}{
	{name: "before the call is sent", before: func(o *own4, _ wire.Op) { <-o.s.Cut() }},
	{name: "after it was sent", before: func(o *own4, op wire.Op) { o.script.LoseCall(op, 1) }},
	{name: "after it was carried out", before: func(o *own4, op wire.Op) { o.script.LoseReply(op, 1) }},
	{name: "twice", before: func(o *own4, op wire.Op) {
		o.script.LoseReply(op, 1)
		o.script.LoseReply(op, 1)
	}},
	{name: "after the reply", after: func(o *own4) { <-o.s.Cut() }},
}

// TestOwn4Once: whenever the connection is lost, what must not happen twice happens once, and its
// caller does not notice.
func TestOwn4Once(t *testing.T) {
	onOwn4(t, nfsd.Config{}, func(o *own4) {
		u := o.user(o.T)
		n := 0
		for _, a := range acts4 {
			if o.minor < a.minor {
				continue
			}
			op := opNumber(o.T, a.op)
			run := func(before func(*own4, wire.Op), after func(*own4)) uint64 {
				n++
				name := fmt.Sprintf("once-%d", n)
				p := u.prepare(name)
				done := o.done(a.op)
				if before != nil {
					before(o, op)
				}
				if err := a.do(u, name, p); err != nil {
					o.Errorf("%s: %v", a.name, err)
				}
				if after != nil {
					after(o)
				}
				done = o.done(a.op) - done
				u.finish(p)
				return done
			}
			usual := run(nil, nil)
			if usual == 0 {
				o.Fatalf("%s takes no %s", a.name, a.op)
			}
			for _, c := range cuts4 {
				struck := o.script.Struck()
				o.limited(a.name+", "+c.name, func() {
					if got := run(c.before, c.after); got != usual {
						o.Errorf("%s, connection lost %s: %s was carried out %d times, not %d", a.name, c.name, a.op, got, usual)
					}
				})
				if lost := o.script.Struck() - struck; c.name == "twice" && lost != 2 || c.name == "after it was carried out" && lost != 1 {
					o.Errorf("%s, %s: %d replies lost", a.name, c.name, lost)
				}
			}
		}
		if n := o.s.State().Counts(); n.Opens != 0 || n.Locks != 0 {
			o.Errorf("left: %+v", n)
		}
	})
}
