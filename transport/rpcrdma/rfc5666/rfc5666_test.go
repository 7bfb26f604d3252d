package rfc5666

import (
	"bytes"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

func words(ws ...uint32) []byte {
	var w xdr.Writer
	for _, v := range ws {
		w.Uint32(v)
	}
	return w.Bytes()
}

// TestServeConfig asks for everything that the responder has to refuse, and configures once.
func TestServeConfig(t *testing.T) {
	for _, c := range []struct {
		name       string
		vers, proc uint32
		args       []byte
		want       transport.AcceptStat
	}{
		{"another version", 2, 1, words(4096, 4096, 1), transport.ProgMismatch},
		{"NULL", 1, 0, nil, transport.Success},
		{"another procedure", 1, 2, words(4096, 4096, 1), transport.ProcUnavail},
		{"cut short", 1, 1, words(4096, 4096), transport.GarbageArgs},
		{"more than a request", 1, 1, words(4096, 4096, 1, 0), transport.GarbageArgs},
		{"calls too small", 1, 1, words(1023, 4096, 1), transport.GarbageArgs},
		{"replies too small", 1, 1, words(4096, 1023, 1), transport.GarbageArgs},
		{"least", 1, 1, words(1024, 1024, 0), transport.Success},
	} {
		var args xdr.Reader
		var reply xdr.Writer
		args.Reset(c.args, nil)
		q := &transport.Request{Vers: c.vers, Proc: c.proc, Args: &args, Reply: &reply}
		configured := false
		got := ServeConfig(q, func(q *ConfigRequest) (ConfigReply, transport.AcceptStat) {
			configured = true
			if *q != (ConfigRequest{1024, 1024, 0}) {
				t.Errorf("%s: request %+v", c.name, q)
			}
			return ConfigReply{8192, Align, 3}, transport.Success
		})
		if got != c.want || configured != (c.name == "least") {
			t.Errorf("%s: %v, configured %v", c.name, got, configured)
		}
		if configured && !bytes.Equal(reply.Bytes(), words(8192, 4, 3)) {
			t.Errorf("reply %x", reply.Bytes())
		}
		if got == transport.ProgMismatch && (q.Low != 1 || q.High != 1) {
			t.Errorf("versions %d to %d", q.Low, q.High)
		}
	}
}

func TestPaddingWithinBounds(t *testing.T) {
	for give, want := range map[Padding]Padding{
		{}:             {},
		{0, 100}:       {0, 100},
		{8, 100}:       {8, MinPadThreshold},
		{1 << 20, 800}: {MaxPadAlign, 800},
	} {
		if got := give.Bounded(); got != want {
			t.Errorf("%v: %v, want %v", give, got, want)
		}
	}
	p := Padding{8, 600}
	if p.Concerns([]plan.Item{{Len: 599}}) || !p.Concerns([]plan.Item{{Len: 5}, {Len: 600}}) {
		t.Error("the threshold is not the least length that is aligned")
	}
}

// TestPaddedHeader encodes a header as RDMA_MSGP, and parses it.
func TestPaddedHeader(t *testing.T) {
	m := wire.Msg{Header: wire.Header{XID: 7, Version: 1, Credits: 32}}
	var w xdr.Writer
	Padding{16, 1000}.Append(&w, &m)
	if want := words(7, 1, 32, 2, 16, 1000, 0, 0, 0); !bytes.Equal(w.Bytes(), want) {
		t.Errorf("header %x, want %x", w.Bytes(), want)
	}
	var back wire.Msg
	n, p, err := Parse(&back, append(w.Bytes(), 1, 2, 3))
	if err != nil || n != 36 || *p != (Alignment{Base: 36, Align: 16, Threshold: 1000}) || back.XID != 7 || back.Proc != wire.ProcMsgP {
		t.Errorf("%d bytes, %+v, %+v, %v", n, p, back.Header, err)
	}
}
