package reconnect

import (
	"context"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/account"
)

var counted = []account.Program{{Number: 1, Name: "P", Procedures: []string{"NULL"}}}

// TestAccount: a call that was sent twice counts as one, with its resend, all its time, and the status that it ended with.
func TestAccount(t *testing.T) {
	table := account.New(counted)
	r := newRig(t, Config{Timeo: time.Hour, Retrans: 9, Account: table})
	status := uint32(5)
	res := make(chan error, 1)
	go func() { res <- r.c.Call(t.Context(), &transport.Call{Prog: 1, Status: &status}) }()
	r.dial(nil)
	first := <-r.d.sent
	r.clock.advance(time.Minute)
	first.link.lose(errLost)
	r.wantLog("connection to srv lost")
	r.rest()
	r.dial(nil)
	(<-r.d.sent).answer <- nil
	if err := <-res; err != nil {
		t.Fatal(err)
	}
	all := table.Procedures()
	if len(all) != 1 {
		t.Fatalf("%+v", all)
	}
	p := all[0]
	if p.Calls != 1 || p.Resends != 1 || p.Errors != 1 || p.Execution.SumNS < uint64(time.Minute) {
		t.Errorf("%+v", p)
	}
}

// TestHealth: a call is listed once it has taken longer than Probe, with or without a link, and no longer than it takes;
// the last failure is remembered.
func TestHealth(t *testing.T) {
	r := newRig(t, Config{Timeo: time.Hour, Retrans: 9, Probe: time.Second})
	if h := r.c.Health(); h.Connected || len(h.Waiting) > 0 || h.Failure != nil {
		t.Errorf("before: %+v", h)
	}
	start := r.clock.Now()
	res := r.call(t.Context())
	ask := <-r.d.dials
	r.clock.advance(2 * time.Second)
	h := r.c.Health()
	if h.Connected || len(h.Waiting) != 1 || h.Waiting[0].OnLink || h.Waiting[0].Sent != 0 || !h.Waiting[0].Begun.Equal(start) {
		t.Errorf("without a link: %+v", h)
	}
	ask <- errLost
	r.rest()
	r.dial(nil)
	sent := <-r.d.sent
	h = r.c.Health()
	if !h.Connected || h.Failure == nil || h.FailedAt.IsZero() || len(h.Waiting) != 1 || !h.Waiting[0].OnLink || h.Waiting[0].Sent != 1 {
		t.Errorf("with a link: %+v", h)
	}
	sent.answer <- nil
	if err := <-res; err != nil {
		t.Fatal(err)
	}
	if h = r.c.Health(); len(h.Waiting) != 0 || !h.Connected {
		t.Errorf("after the reply: %+v", h)
	}
	sent.link.lose(errLost)
	for h.Connected { // noticed by Done
		h = r.c.Health()
	}
}

// TestSlow: a slow call is logged with what it was about, others are not.
func TestSlow(t *testing.T) {
	r := newRig(t, Config{Timeo: time.Hour, Retrans: 9, Slow: time.Minute, Account: account.New(counted)})
	about := context.WithValue(t.Context(), transport.Subject{}, func() string { return `"/file"` })
	for _, took := range []time.Duration{time.Minute - 1, time.Minute} {
		res := r.call(about)
		if took < time.Minute {
			r.dial(nil)
		}
		sent := <-r.d.sent
		if !sent.call.Timed {
			t.Error("the link is not told to note when the reply comes")
		}
		r.clock.advance(took)
		sent.answer <- nil
		if err := <-res; err != nil {
			t.Fatal(err)
		}
	}
	r.wantLog(`slow call: P NULL of "/file" to srv took 1m0s`)
	select {
	case more := <-r.logs:
		t.Errorf("logged %q", more)
	default:
	}
}
