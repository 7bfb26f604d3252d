package rpctest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

func testNull(e *env) {
	for range 3 {
		e.check(null(e.Context(), e.c), "null")
	}
	if l := e.c.Limits(); l.MaxSend <= 0 || l.MaxRecv <= 0 || l.Concurrent <= 0 {
		e.Errorf("limits %+v", l)
	}
	if s := e.c.Stats(); s.Calls != 3 || s.Replies != 3 || s.Connects == 0 || s.Resends != 0 || s.BytesSent == 0 || s.BytesReceived == 0 {
		e.Errorf("%+v", s)
	}
}

func testInline(e *env) {
	for n := range 70 {
		e.check(echo(e.Context(), e.c, n, uint32(n)), "%d bytes", n)
	}
	for n := 500; n < 4300; n += 93 {
		e.check(echo(e.Context(), e.c, n, uint32(n)), "%d bytes", n)
	}
}

var longSizes = []int{5000, 16 << 10, 64<<10 - 3, 256 << 10}

// testLongArguments has short replies, so that only the call is long.
func testLongArguments(e *env) {
	for _, n := range longSizes {
		call := newCall(procEcho)
		call.Vers = 99
		call.Args = func(w *xdr.Writer) { w.Opaque(make([]byte, n)) }
		var refused *transport.RPCError
		if err := e.c.Call(e.Context(), call); !errors.As(err, &refused) || refused.Code != uint32(transport.ProgMismatch) {
			e.Errorf("%d bytes of arguments: %v", n, err)
		}
		e.check(echo(e.Context(), e.c, n, uint32(n)), "%d bytes there and back", n)
	}
}

func testLongResults(e *env) {
	for _, n := range longSizes {
		e.check(long(e.Context(), e.c, n, n, uint32(n)), "%d bytes of results", n)
	}
}

func testShortOfBound(e *env) {
	for _, n := range []int{0, 1, 100, 900, 4000, 20_000} {
		e.check(long(e.Context(), e.c, n, 256<<10, uint32(n)), "%d bytes of results, bound of 256 KiB", n)
		e.check(get(e.Context(), e.c, e.wins[0], n, 64<<10, 1, uint32(n)), "%d bytes of payload, room for 64 KiB", n)
		e.check(get(e.Context(), e.c, e.wins[0], n, 64<<10+1, 3, uint32(n)), "%d bytes of payload, room for 64 KiB and 1", n)
	}
}

func testPut(e *env) {
	for _, n := range sizes(e.c.Limits().MaxSend) {
		for _, parts := range []int{1, 3} {
			e.check(put(e.Context(), e.c, e.wins[0], n, parts, uint32(n)), "%d bytes in %d segments", n, parts)
		}
	}
}

func testGet(e *env) {
	for _, n := range sizes(e.c.Limits().MaxRecv) {
		for _, parts := range []int{1, 3} {
			for _, seed := range []uint32{2, 3} { // the payload last, and not
				e.check(get(e.Context(), e.c, e.wins[0], n, n, parts, seed), "%d bytes in %d segments, seed %d", n, parts, seed)
			}
		}
	}
}

func testSwap(e *env) {
	l := e.c.Limits()
	for _, n := range sizes(min(l.MaxSend, l.MaxRecv)) {
		e.check(swap(e.Context(), e.c, e.wins[0], e.wins[1], n, uint32(n)), "%d bytes", n)
	}
}

func testCredentials(e *env) {
	for _, tc := range []struct {
		cred   transport.Cred
		flavor uint32
	}{
		{nil, transport.FlavorNone},
		{transport.AuthNone{}, transport.FlavorNone},
		{&transport.AuthSys{}, transport.FlavorSys},
		{&transport.AuthSys{Machine: "client", UID: 1000, GID: 100, GIDs: []uint32{4, 24, 1000}}, transport.FlavorSys},
		{&transport.AuthSys{UID: 0xffffffff, GID: 0xfffffffe, GIDs: make([]uint32, 20)}, transport.FlavorSys},
	} {
		var want transport.AuthSys
		if sys, ok := tc.cred.(*transport.AuthSys); ok {
			want = *sys
			want.GIDs = want.GIDs[:min(len(want.GIDs), 16)]
		}
		var flavor uint32
		var got transport.AuthSys
		call := newCall(procCred)
		call.Cred = tc.cred
		call.ReplyMax = 16 + 64
		call.Result = func(r *xdr.Reader) error {
			flavor = r.Uint32()
			got = transport.AuthSys{UID: r.Uint32(), GID: r.Uint32()}
			for range r.Count(16) {
				got.GIDs = append(got.GIDs, r.Uint32())
			}
			return r.End()
		}
		err := e.c.Call(e.Context(), call)
		if err != nil || flavor != tc.flavor || got.UID != want.UID || got.GID != want.GID || !slices.Equal(got.GIDs, want.GIDs) {
			e.Errorf("the server saw flavor %d and %+v, want %d and %+v; %v", flavor, got, tc.flavor, want, err)
		}
	}
}

func testRefusals(e *env) {
	fail := func(s transport.AcceptStat) *transport.Call {
		c := newCall(procFail)
		c.Args = func(w *xdr.Writer) { w.Uint32(uint32(s)) }
		return c
	}
	other := func(f func(c *transport.Call)) *transport.Call {
		c := newCall(procNull)
		f(c)
		return c
	}
	for name, tc := range map[string]struct {
		c    *transport.Call
		want transport.RPCError
	}{
		"PROG_UNAVAIL":       {fail(transport.ProgUnavail), transport.RPCError{Code: 1}},
		"PROG_MISMATCH":      {fail(transport.ProgMismatch), transport.RPCError{Code: 2, Low: 7, High: 9}},
		"PROC_UNAVAIL":       {fail(transport.ProcUnavail), transport.RPCError{Code: 3}},
		"GARBAGE_ARGS":       {fail(transport.GarbageArgs), transport.RPCError{Code: 4}},
		"SYSTEM_ERR":         {fail(transport.SystemErr), transport.RPCError{Code: 5}},
		"another program":    {other(func(c *transport.Call) { c.Prog++ }), transport.RPCError{Code: 1}},
		"a later version":    {other(func(c *transport.Call) { c.Vers++ }), transport.RPCError{Code: 2, Low: low, High: vers}},
		"no such procedure":  {other(func(c *transport.Call) { c.Proc = numProcs }), transport.RPCError{Code: 3}},
		"too many arguments": {other(func(c *transport.Call) { c.Args = func(w *xdr.Writer) { w.Uint32(1) } }), transport.RPCError{Code: 4}},
		"too few arguments":  {newCall(procPut), transport.RPCError{Code: 4}},
	} {
		// With and without room for a payload that does not come.
		for _, room := range []int{0, 64 << 10} {
			w := e.wins[0]
			v := w.vec(room, 1)
			if room > 0 {
				tc.c.Recv = []transport.Payload{v}
			}
			tc.c.Result = func(r *xdr.Reader) error { return errors.New("decoded") }
			err := e.c.Call(e.Context(), tc.c)
			var te *transport.Error
			var refused *transport.RPCError
			if !errors.As(err, &te) || te.Fate != transport.Answered || !errors.As(err, &refused) || *refused != tc.want {
				e.Errorf("%s, room for %d bytes: %v, want %v", name, room, err, &tc.want)
			}
			e.check(w.intact(v, 0), "%s", name)
		}
	}
	e.check(null(e.Context(), e.c), "null, afterwards")
	if s := e.c.Stats(); s.Resends != 0 {
		e.Errorf("%+v", s)
	}
}

func testErrorsOfResult(e *env) {
	own := errors.New("not found")
	call := func(f func(r *xdr.Reader) error) error {
		c := getCall(procGet, e.wins[0].vec(100, 1), 100, 1)
		c.Result = f
		return e.c.Call(e.Context(), c)
	}
	answered := func(err error) bool {
		var te *transport.Error
		return errors.As(err, &te) && te.Fate == transport.Answered
	}
	if err := call(func(r *xdr.Reader) error { return fmt.Errorf("status: %w", own) }); !errors.Is(err, own) || errors.Is(err, transport.ErrProtocol) || !answered(err) {
		e.Errorf("its own error: %v", err)
	}
	if err := call(func(r *xdr.Reader) error {
		for range 1000 {
			r.Uint64()
		}
		return nil
	}); !errors.Is(err, transport.ErrProtocol) || !answered(err) {
		e.Errorf("reading past the end: %v", err)
	}
	e.check(null(e.Context(), e.c), "null, afterwards")
	if s := e.c.Stats(); s.Resends != 0 {
		e.Errorf("%+v", s)
	}
}
