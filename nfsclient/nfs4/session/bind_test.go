package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// redialed is a server that wants each connection bound; connections are those since the last Redial.
type redialed struct {
	*server
	binder *Binder

	mu      sync.Mutex
	redials int
	bound   bool // the connections of now are
}

// Redial implements Redialer: the new connection is established at once.
func (r *redialed) Redial() {
	r.mu.Lock()
	r.redials++
	r.bound = false
	r.mu.Unlock()
	first := true
	_ = r.binder.Establish(context.Background(), func(ctx context.Context, c *transport.Call) error {
		err := r.server.Call(ctx, c)
		if err == nil && first {
			r.mu.Lock()
			r.bound = true
			r.mu.Unlock()
		}
		first = false
		return err
	})
}

// TestRebind: a server that answers CONN_NOT_BOUND_TO_SESSION is asked to bind a connection; if it was
// another, all are replaced, and bound before anything else goes over them.
func TestRebind(t *testing.T) {
	var rd *redialed
	r := newRig(t, func(r *rig) {
		r.cf.Binder = new(Binder)
		rd = &redialed{server: r.v, binder: r.cf.Binder}
		r.cf.Caller = rd
		r.v.script = func(c *wire.Compound) decision {
			rd.mu.Lock()
			defer rd.mu.Unlock()
			if has(c, "a") && !rd.bound {
				return decision{status: wire.ErrConnNotBoundToSession}
			}
			return decision{}
		}
	})
	r.must(remove("a"))
	r.once("a")
	if rd.redials != 1 {
		t.Errorf("connections were replaced %d times", rd.redials)
	}
	if n := r.v.count(wire.OpBindConnToSession); n != 2 {
		t.Errorf("%d BIND_CONN_TO_SESSIONs", n)
	}
	if n := r.v.count(wire.OpCreateSession); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

// TestBinder: a connection is bound only where the server wants that, before and after there is a
// session nothing is, and what the server refuses ends no connection.
func TestBinder(t *testing.T) {
	b := new(Binder)
	var answers []wire.Status
	var sent []wire.Op
	r := newRig(t, func(r *rig) {
		r.cf.Binder = b
		r.v.script = func(c *wire.Compound) decision {
			if o, ok := c.Ops[0].(*wire.BindConnToSession); ok {
				sent = append(sent, o.Op())
				if len(answers) > 0 {
					st := answers[0]
					answers = answers[1:]
					return decision{status: st}
				}
			}
			return decision{}
		}
		if err := b.Establish(t.Context(), r.v.Call); err != nil || len(sent) != 0 {
			t.Errorf("before there is a session: %v, %v", err, sent)
		}
	})
	if err := b.Establish(r.ctx, r.v.Call); err != nil || len(sent) != 0 {
		t.Errorf("though the server has not asked for it: %v, %v", err, sent)
	}
	r.s.mu.Lock()
	r.s.mustBind = true
	r.s.mu.Unlock()
	for _, x := range []struct {
		answers []wire.Status
		sent    int
	}{{nil, 1}, {[]wire.Status{wire.ErrDelay, wire.ErrDelay}, 3}, {[]wire.Status{wire.ErrBadSession}, 1}, {[]wire.Status{nfsclient.ErrNotSupp}, 1}} {
		sent, answers = nil, slices.Clone(x.answers)
		if err := b.Establish(r.ctx, r.v.Call); err != nil || len(sent) != x.sent {
			t.Errorf("%v: %v, %d sent", x.answers, err, len(sent))
		}
	}
	lost := &transport.Error{Fate: transport.Unknown, Err: errors.New("lost")}
	if err := b.Establish(r.ctx, func(context.Context, *transport.Call) error { return lost }); !errors.Is(err, lost) {
		t.Errorf("a connection that is lost meanwhile: %v", err)
	}
	denied := &transport.Error{Fate: transport.Answered, Err: &transport.RPCError{Code: 1}}
	if err := b.Establish(r.ctx, func(context.Context, *transport.Call) error { return denied }); err != nil {
		t.Errorf("a server that denies the call: %v", err)
	}
}
