package oncrpc

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

type handler func(q *transport.Request) transport.AcceptStat

func (f handler) Serve(_ context.Context, q *transport.Request) transport.AcceptStat { return f(q) }

// serve passes msg to Serve and returns the reply.
func serve(msg []byte, f handler) ([]byte, bool) {
	q := &transport.Request{Args: new(xdr.Reader), Reply: new(xdr.Writer)}
	q.Args.Reset(msg, nil)
	ok := Serve(context.Background(), f, q)
	return q.Reply.Bytes(), ok
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMachineAndGroupsAreCut(t *testing.T) {
	sys := &transport.AuthSys{Machine: strings.Repeat("m", 1000), UID: 1, GID: 2, GIDs: make([]uint32, 40)}
	for i := range sys.GIDs {
		sys.GIDs[i] = uint32(100 + i)
	}
	var w xdr.Writer
	AppendCall(&w, 9, &transport.Call{Cred: sys})
	var r xdr.Reader
	r.Reset(w.Bytes(), nil)
	h, err := ParseCall(&r)
	if err != nil || h.Sys.UID != 1 || h.Sys.GID != 2 || len(h.Sys.GIDs) != 16 || h.Sys.GIDs[15] != 115 {
		t.Errorf("%+v, %v", h, err)
	}
	if want := 6*4 + 2*4 + 5*4 + 256 + 16*4 + 2*4; w.Len() != want {
		t.Errorf("%d bytes encoded, want %d", w.Len(), want)
	}
}

// TestRefusals walks every way in which a server does not carry a call out:
// what it puts on the wire, and what the client makes of that.
func TestRefusals(t *testing.T) {
	none := "00000007 00000000 00000002 00030000 00000001 00000005 00000000 00000000 00000000 00000000"
	accepted := "00000007 00000001 00000000 00000000 00000000 "
	denied := "00000007 00000001 00000001 "
	stat := func(s transport.AcceptStat) handler {
		return func(q *transport.Request) transport.AcceptStat {
			q.Low, q.High = 3, 4
			q.Reply.String("dropped")
			return s
		}
	}
	never := func(*transport.Request) transport.AcceptStat { panic("served") }
	for name, tc := range map[string]struct {
		call string
		h    handler
		want string
		err  transport.RPCError
	}{
		"program":     {none, stat(transport.ProgUnavail), accepted + "00000001", transport.RPCError{Code: 1}},
		"version":     {none, stat(transport.ProgMismatch), accepted + "00000002 00000003 00000004", transport.RPCError{Code: 2, Low: 3, High: 4}},
		"procedure":   {none, stat(transport.ProcUnavail), accepted + "00000003", transport.RPCError{Code: 3}},
		"garbage":     {none, stat(transport.GarbageArgs), accepted + "00000004", transport.RPCError{Code: 4}},
		"system":      {none, stat(transport.SystemErr), accepted + "00000005", transport.RPCError{Code: 5}},
		"overruled":   {none, func(q *transport.Request) transport.AcceptStat { q.Args.Uint32(); return 0 }, accepted + "00000004", transport.RPCError{Code: 4}},
		"RPC version": {"00000007 00000000 00000003", never, denied + "00000000 00000002 00000002", transport.RPCError{Denied: true, Low: 2, High: 2}},
		"flavour": {"00000007 00000000 00000002 00030000 00000001 00000005 00000006 00000004 01020304 00000000 00000000", never,
			denied + "00000001 00000001", transport.RPCError{Denied: true, Auth: true, Code: 1}},
		"short": {"00000007 00000000 00000002 00030000 00000001 00000005 00000002 00000000 00000000 00000000", never,
			denied + "00000001 00000002", transport.RPCError{Denied: true, Auth: true, Code: 2}},
		"verifier": {"00000007 00000000 00000002 00030000 00000001 00000005 00000000 00000000 00000003 00000000", never,
			denied + "00000001 00000003", transport.RPCError{Denied: true, Auth: true, Code: 3}},
		"empty AUTH_SYS": {"00000007 00000000 00000002 00030000 00000001 00000005 00000001 00000000 00000000 00000000", never,
			denied + "00000001 00000001", transport.RPCError{Denied: true, Auth: true, Code: 1}},
		"17 groups": {"00000007 00000000 00000002 00030000 00000001 00000005 00000001 00000058 00000000 00000000 00000000 00000000 00000011" +
			strings.Repeat("00000001", 17) + "00000000 00000000", never,
			denied + "00000001 00000001", transport.RPCError{Denied: true, Auth: true, Code: 1}},
	} {
		got, ok := serve(unhex(t, tc.call), tc.h)
		want := unhex(t, tc.want)
		if !ok || !bytes.Equal(got, want) {
			t.Errorf("%s: answered %x, want %x", name, got, want)
			continue
		}
		c := &transport.Call{Result: func(*xdr.Reader) error { panic("decoded") }}
		var r xdr.Reader
		r.Reset(got, nil)
		err := DecodeReply(&r, 7, c)
		var e *transport.Error
		var refused *transport.RPCError
		if !errors.As(err, &e) || e.Fate != transport.Answered || !errors.As(err, &refused) || *refused != tc.err {
			t.Errorf("%s: client reads %v, want %v", name, err, &tc.err)
		}
		for n := range got {
			r.Reset(got[:n], nil)
			checkProtocol(t, DecodeReply(&r, 7, c), "%s cut to %d bytes", name, n)
		}
	}
}

func TestMalformedReplies(t *testing.T) {
	for name, msg := range map[string]string{
		"a call":            "00000007 00000000 00000000 00000000 00000000 00000000",
		"reply_stat":        "00000007 00000001 00000002 00000000 00000000 00000000",
		"reject_stat":       "00000007 00000001 00000001 00000002 00000000 00000000",
		"verifier too long": "00000007 00000001 00000000 00000000 00000191 00000000",
		"huge verifier":     "00000007 00000001 00000000 00000000 ffffffff 00000000",
	} {
		var r xdr.Reader
		r.Reset(unhex(t, msg), nil)
		checkProtocol(t, DecodeReply(&r, 7, &transport.Call{}), "%s", name)
	}
}

func TestLongestVerifierIsAccepted(t *testing.T) {
	msg := unhex(t, "00000007 00000001 00000000 00000006 00000190"+strings.Repeat("ab", 400)+"00000000 0000002a")
	var got uint32
	c := &transport.Call{Result: func(r *xdr.Reader) error { got = r.Uint32(); return r.End() }}
	var r xdr.Reader
	r.Reset(msg, nil)
	if err := DecodeReply(&r, 7, c); err != nil || got != 42 {
		t.Errorf("%d, %v", got, err)
	}
}

func TestErrorsOfResult(t *testing.T) {
	ok := unhex(t, "00000007 00000001 00000000 00000000 00000000 00000000 0000002a")
	own := errors.New("no such file")
	decode := func(f func(*xdr.Reader) error) error {
		var r xdr.Reader
		r.Reset(ok, nil)
		return DecodeReply(&r, 7, &transport.Call{Result: f})
	}
	err := decode(func(r *xdr.Reader) error { r.Uint32(); return own })
	if !errors.Is(err, own) || errors.Is(err, transport.ErrProtocol) {
		t.Errorf("its own error: %v", err)
	}
	checkProtocol(t, decode(func(r *xdr.Reader) error { r.Uint64(); return nil }), "read past the end")
	checkProtocol(t, decode(func(r *xdr.Reader) error { r.Uint64(); return own }), "read past the end, own error")
	checkProtocol(t, decode(func(r *xdr.Reader) error { return r.End() }), "left over")
	if err := decode(nil); err != nil {
		t.Errorf("void: %v", err)
	}
}

func TestServeFillsRequest(t *testing.T) {
	c := &transport.Call{Prog: 1, Vers: 2, Proc: 3, Cred: &transport.AuthSys{Machine: "host", UID: 4, GID: 5, GIDs: []uint32{6, 7}},
		Args: func(w *xdr.Writer) { w.Uint32(40) }}
	var w xdr.Writer
	AppendCall(&w, 0xabcdef01, c)
	reply, ok := serve(w.Bytes(), func(q *transport.Request) transport.AcceptStat {
		if q.XID != 0xabcdef01 || q.Prog != 1 || q.Vers != 2 || q.Proc != 3 || q.Flavor != transport.FlavorSys || q.Sys.UID != 4 || q.Sys.GID != 5 ||
			len(q.Sys.GIDs) != 2 || q.Sys.GIDs[1] != 7 {
			t.Errorf("request %+v", q)
		}
		q.Reply.Uint32(q.Args.Uint32() + 2)
		return transport.Success
	})
	if want := unhex(t, "abcdef01 00000001 00000000 00000000 00000000 00000000 0000002a"); !ok || !bytes.Equal(reply, want) {
		t.Errorf("reply %x, want %x", reply, want)
	}
	for n := range headerLen(c) {
		if reply, ok := serve(w.Bytes()[:n], nil); ok || len(reply) > 0 {
			t.Errorf("call cut to %d bytes answered with %x", n, reply)
		}
	}
}

func TestPeekXIDRejects(t *testing.T) {
	for _, b := range [][]byte{nil, unhex(t, "00000001 000000"), unhex(t, "00000001 00000002"), unhex(t, "00000001 ffffffff")} {
		if _, _, ok := PeekXID(b); ok {
			t.Errorf("%x accepted", b)
		}
	}
}

func FuzzServe(f *testing.F) {
	for _, g := range goldens(f, "call") {
		f.Add(g.msg)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		reply, ok := serve(b, func(q *transport.Request) transport.AcceptStat {
			if len(q.Sys.GIDs) > transport.MaxGIDs {
				t.Fatal("too many groups")
			}
			q.Reply.Fixed(q.Args.Data(1 << 10))
			return transport.Success
		})
		if !ok {
			return
		}
		var r xdr.Reader
		r.Reset(reply, nil)
		xid, _, _ := PeekXID(b)
		err := DecodeReply(&r, xid, &transport.Call{})
		if errors.Is(err, transport.ErrProtocol) {
			t.Fatalf("%x is answered with the malformed %x: %v", b, reply, err)
		}
	})
}

func FuzzDecodeReply(f *testing.F) {
	for _, g := range goldens(f, "reply") {
		f.Add(g.msg)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		xid, reply, ok := PeekXID(b)
		var r xdr.Reader
		r.Reset(b, nil)
		err := DecodeReply(&r, xid, &transport.Call{Result: func(r *xdr.Reader) error { r.Data(100); return r.Err() }})
		if err == nil && !(ok && reply) {
			t.Fatalf("%x accepted", b)
		}
	})
}
