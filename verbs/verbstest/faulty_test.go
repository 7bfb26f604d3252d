package verbstest_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
	"github.com/rdmafs/rdmafs/verbs/verbstest"
)

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// TestWrapperIsTransparent: a wrapped device without faults keeps the contract.
func TestWrapperIsTransparent(t *testing.T) {
	verbstest.Run(t, func(*testing.T) (verbs.Device, verbs.Device, netip.AddrPort) {
		var f verbstest.Faults
		return verbstest.Faulty(iwarp.Open(iwarp.Config{}), &f), verbstest.Faulty(iwarp.Open(iwarp.Config{}), &f), loopback
	})
}

// faultyPair connects a faulty client with a sound server that has 8
// zero-length receives posted.
func faultyPair(t *testing.T, f *verbstest.Faults) (client, server verbs.Conn) {
	t.Helper()
	ctx := t.Context()
	cd, sd := verbstest.Faulty(iwarp.Open(iwarp.Config{}), f), iwarp.Open(iwarp.Config{})
	l, err := sd.Listen(loopback, verbs.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o := verbs.ConnOptions{SendQueue: 16, RecvQueue: 8, PrivateData: []byte("private"), Prepare: func(q verbs.QP) error {
		_, err := q.PostRecv(make([]verbs.RecvWR, 8))
		return err
	}}
	accepted := make(chan error, 1)
	go func() {
		r, err := l.Accept(ctx)
		if err == nil {
			server, err = r.Accept(ctx, o)
		}
		accepted <- err
	}()
	client, err = cd.Dial(ctx, l.Addr(), o)
	if aerr := <-accepted; err != nil || aerr != nil {
		t.Fatal(err, aerr)
	}
	l.Close()
	t.Cleanup(func() {
		client.Close()
		server.Close()
		if err := cd.Close(); err != nil {
			t.Error(err)
		}
		if err := sd.Close(); err != nil {
			t.Error(err)
		}
	})
	return client, server
}

func send(id uint64) verbs.SendWR { return verbs.SendWR{ID: id, Op: verbs.OpSend, Signaled: true} }

func wantFault(t *testing.T, err error) {
	t.Helper()
	var ce *verbs.ConnError
	if !errors.As(err, &ce) || !errors.Is(err, verbstest.ErrFault) {
		t.Errorf("got %v (%T), want a *ConnError of a fault", err, err)
	}
}

func next(t *testing.T, c verbs.Conn) verbs.Completion {
	t.Helper()
	var wc [1]verbs.Completion
	if _, err := c.Wait(t.Context(), wc[:]); err != nil {
		t.Fatal(err)
	}
	return wc[0]
}

func TestFailDials(t *testing.T) {
	var f verbstest.Faults
	f.FailDials(2)
	d := verbstest.Faulty(iwarp.Open(iwarp.Config{}), &f)
	for range 2 {
		_, err := d.Dial(t.Context(), loopback, verbs.ConnOptions{})
		wantFault(t, err)
	}
	if _, err := d.Dial(t.Context(), loopback, verbs.ConnOptions{}); errors.Is(err, verbstest.ErrFault) {
		t.Error("third dial failed, too")
	}
	if dials, _, _ := f.Counts(); dials != 3 {
		t.Errorf("%d dials counted", dials)
	}
}

func TestCutAfterSends(t *testing.T) {
	var f verbstest.Faults
	client, server := faultyPair(t, &f)
	f.CutAfterSends(3)
	n, err := client.PostSend([]verbs.SendWR{send(1), {Op: verbs.OpWrite}, send(2), send(3), send(4)})
	wantFault(t, err)
	if n != 3 {
		t.Errorf("posted %d requests before the cut", n)
	}
	_, err = client.Wait(t.Context(), make([]verbs.Completion, 1))
	wantFault(t, err)
	_, err = client.PostSend([]verbs.SendWR{send(5)})
	wantFault(t, err)
	var ce *verbs.ConnError
	for err = nil; err == nil; {
		_, err = server.Wait(t.Context(), make([]verbs.Completion, 1))
	}
	if !errors.As(err, &ce) {
		t.Errorf("peer of a cut connection got %v", err)
	}
	client.Close()
	if _, err := client.Wait(t.Context(), make([]verbs.Completion, 1)); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("Wait after Close returned %v", err)
	}
}

func TestCutAfterCompletions(t *testing.T) {
	var f verbstest.Faults
	client, _ := faultyPair(t, &f)
	f.CutAfterCompletions(2)
	for id := range uint64(2) {
		if _, err := client.PostSend([]verbs.SendWR{send(id)}); err != nil {
			t.Fatal(err)
		}
		if c := next(t, client); c.ID != id {
			t.Fatalf("got %+v", c)
		}
	}
	_, err := client.Wait(t.Context(), make([]verbs.Completion, 1))
	wantFault(t, err)
}

func TestSwallowSend(t *testing.T) {
	var f verbstest.Faults
	client, server := faultyPair(t, &f)
	f.SwallowSend(2)
	for id := range uint64(3) {
		if n, err := client.PostSend([]verbs.SendWR{send(id)}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if c := next(t, client); c.ID != id || c.Op != verbs.OpSend {
			t.Fatalf("send %d completed as %+v", id, c)
		}
	}
	next(t, server)
	next(t, server)
	client.Close()
	if _, err := server.Wait(t.Context(), make([]verbs.Completion, 1)); err == nil {
		t.Error("the swallowed Send arrived")
	}
}

func TestHoldCompletions(t *testing.T) {
	var f verbstest.Faults
	client, _ := faultyPair(t, &f)
	release := f.HoldCompletions()
	if _, err := client.PostSend([]verbs.SendWR{send(1)}); err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := client.Wait(context.Background(), make([]verbs.Completion, 1))
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("Wait returned %v while completions were held", err)
	default:
	}
	release()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestCorruptPrivateData(t *testing.T) {
	var f verbstest.Faults
	f.CorruptPrivateData(func(b []byte) []byte { return b[:3] })
	client, server := faultyPair(t, &f)
	if got := string(client.PrivateData()); got != "pri" {
		t.Errorf("client sees %q", got)
	}
	if got := string(server.PrivateData()); got != "private" {
		t.Errorf("server sees %q", got)
	}
}
