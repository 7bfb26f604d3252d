package oncrpc

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem/memtest"
)

// gate is a Guard over a handler. Its verifier is made of what it was given to
// check, and its protection is a word in front and inverted bytes.
type gate struct {
	handler
	refuse  error
	plain   bool
	garbage bool
	got     Auth
}

func (g *gate) Admit(q *transport.Request, a Auth) (Admission, error) {
	g.got = a
	q.Security, q.Principal = 390005, "alice"
	return gateCall{g}, g.refuse
}

func (g *gate) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	return g.handler.Serve(ctx, q)
}

type gateCall struct{ *gate }

func (c gateCall) Serve(ctx context.Context, q *transport.Request, h transport.Handler) transport.AcceptStat {
	return h.Serve(ctx, q)
}

func (g *gate) AppendVerifier(w *xdr.Writer) {
	w.Uint32(transport.FlavorGSS)
	w.Opaque([]byte("sign"))
}

func (g *gate) Protection() transport.Protection {
	if g.plain {
		return nil
	}
	return inverted{g.garbage}
}

type inverted struct{ fails bool }

func (inverted) Protect(w *xdr.Writer, args []byte) {
	w.Uint32(0x1234)
	for _, b := range args {
		w.Fixed([]byte{^b, 0, 0, 0})
	}
}

func (p inverted) Unprotect(body []byte) ([]byte, error) {
	if p.fails {
		return nil, errors.New("not what the client has sent")
	}
	for i := range body {
		body[i] = ^body[i]
	}
	return body[4:], nil
}

func (inverted) Overhead() int { return 4 }

const gssCall = "00000007 00000000 00000002 000186a3 00000003 00000001 00000006 00000008 0102030405060708 00000006 00000004 76657266"

func serveGate(t *testing.T, g *gate, msg string, payload string) ([]byte, bool) {
	q := &transport.Request{Args: new(xdr.Reader), Reply: new(xdr.Writer)}
	q.Args.Reset(unhex(t, msg), nil)
	q.Reply.Reset(nil, []transport.Payload{memtest.Vec(t, payload)})
	ok := Serve(context.Background(), g, q)
	return q.Reply.AppendFlat(nil, 0), ok
}

func TestGuard(t *testing.T) {
	ran := 0
	g := &gate{handler: func(q *transport.Request) transport.AcceptStat {
		ran++
		if q.Flavor != transport.FlavorGSS || q.Security != 390005 || q.Principal != "alice" || q.Proc != 1 || q.Args.Uint32() != 42 || q.Args.End() != nil {
			t.Errorf("request %+v, %v", q, q.Args.Err())
		}
		q.Reply.Uint32(5)
		q.Reply.Payload(0)
		q.Reply.Uint32(6)
		return transport.Success
	}}
	const head = "00000007 00000001 00000000 00000006 00000004 7369676e "
	reply, ok := serveGate(t, g, gssCall+"ffffffff ffffffd5", "abc")
	var want strings.Builder
	for _, b := range unhex(t, "00000005 00000003 61626300 00000006") {
		want.Write([]byte{^b, 0, 0, 0})
	}
	if expect := append(unhex(t, head+"00000000 00001234"), want.String()...); !ok || !bytes.Equal(reply, expect) {
		t.Errorf("reply %x, want %x", reply, expect)
	}
	if got := g.got; string(got.Cred) != "\x01\x02\x03\x04\x05\x06\x07\x08" || got.VerfFlavor != 6 || string(got.Verf) != "verf" ||
		!bytes.Equal(got.Signed, unhex(t, gssCall)[:40]) {
		t.Errorf("given to check: %+v", got)
	}

	g.plain = true
	reply, ok = serveGate(t, g, gssCall+"0000002a", "abc")
	if expect := unhex(t, head+"00000000 00000005 00000003 61626300 00000006"); !ok || !bytes.Equal(reply, expect) {
		t.Errorf("unprotected reply %x, want %x", reply, expect)
	}
	if ran != 2 {
		t.Errorf("%d calls carried out, want 2", ran)
	}
}

// TestGuardRefuses walks the ways in which a guarded call is not carried out: only
// results of success are protected, and each accepted reply has its verifier.
func TestGuardRefuses(t *testing.T) {
	const head, denied = "00000007 00000001 00000000 00000006 00000004 7369676e ", "00000007 00000001 00000001 00000001 "
	stat := func(s transport.AcceptStat) handler {
		return func(q *transport.Request) transport.AcceptStat {
			q.Low, q.High = 3, 4
			q.Reply.String("dropped")
			return s
		}
	}
	never := func(*transport.Request) transport.AcceptStat { panic("served") }
	for name, tc := range map[string]struct {
		g    gate
		args string
		want string // empty: no reply
	}{
		"procedure":     {gate{handler: stat(transport.ProcUnavail)}, "", head + "00000003"},
		"version":       {gate{handler: stat(transport.ProgMismatch)}, "", head + "00000002 00000003 00000004"},
		"too weak":      {gate{plain: true, handler: stat(transport.TooWeak)}, "", denied + "00000005"},
		"overruled":     {gate{plain: true, handler: func(q *transport.Request) transport.AcceptStat { q.Args.Uint64(); return 0 }}, "00000001", head + "00000004"},
		"no protection": {gate{handler: never, garbage: true}, "00000001", head + "00000004"},
		"not whole":     {gate{handler: never}, "000001", head + "00000004"},
		"credential":    {gate{handler: never, refuse: &AuthError{13, "unknown"}}, "", denied + "0000000d"},
		"discarded":     {gate{handler: never, refuse: ErrDiscard}, "", ""},
		"no reply":      {gate{handler: stat(transport.NoReply)}, "", ""},
	} {
		args := tc.args
		if name == "procedure" || name == "version" || name == "in clear text" || name == "no reply" {
			args = "00000000"
		}
		reply, ok := serveGate(t, &tc.g, gssCall+args, "")
		if ok != (tc.want != "") || ok && !bytes.Equal(reply, unhex(t, tc.want)) {
			t.Errorf("%s: %v, %x, want %s", name, ok, reply, tc.want)
		}
	}
	if _, err := Admit(handler(never), &transport.Request{}, Auth{}); !errors.Is(err, errGuarded) {
		t.Errorf("a handler that is no Guard: %v", err)
	}
}

func TestServeOfAuthSysAllocatesNothing(t *testing.T) {
	var w xdr.Writer
	AppendCall(&w, 1, &transport.Call{Cred: &transport.AuthSys{Machine: "host"}})
	q := &transport.Request{Args: new(xdr.Reader), Reply: new(xdr.Writer)}
	buf := make([]byte, 256)
	var h transport.Handler = &gate{handler: func(*transport.Request) transport.AcceptStat { return transport.Success }}
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() {
		q.Args.Reset(w.Bytes(), nil)
		q.Reply.Reset(buf, nil)
		Serve(ctx, h, q)
	}); n != 0 {
		t.Errorf("%v allocations for each call", n)
	}
}
