package nfs3

import (
	"context"
	"errors"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/garbage"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/mem/memtest"
)

func TestRead(t *testing.T) {
	c, nfs, a, _ := mounted(t)
	to := mem.Vec{a.Seg(0, 3), a.Seg(100, 5)}
	read := func(off uint64, res wire.Message) (nfsclient.ReadResult, error) {
		var args wire.ReadArgs
		nfs.expect(nfsStep(wire.ProcRead, res).with(&args, func(t *testing.T) {
			if args != (wire.ReadArgs{Handle: "h", Offset: off, Count: 8}) {
				t.Errorf("asked for %+v", args)
			}
		}))
		return c.Read(t.Context(), cred, "h", nil, off, to)
	}
	r, err := read(7, &wire.ReadRes{Attr: filePost, Count: 5, Data: wire.Inline([]byte("hello"))})
	got := make([]byte, 5)
	to.CopyOut(0, got)
	if err != nil || r.N != 5 || r.EOF || !r.Attr.Set || string(got) != "hello" {
		t.Errorf("%+v %q %v", r, got, err)
	}
	r, err = read(92, &wire.ReadRes{Count: 8, EOF: true, Data: wire.Inline([]byte("12345678"))})
	if err != nil || r.N != 8 || !r.EOF || r.Attr.Set {
		t.Errorf("%+v %v", r, err)
	}
	r, err = read(100, &wire.ReadRes{Attr: filePost, Data: wire.Inline(nil)})
	if err != nil || r.N != 0 || !r.EOF {
		t.Errorf("nothing at the end: %+v %v", r, err)
	}
	_, err = read(99, &wire.ReadRes{Attr: filePost, Data: wire.Inline(nil)})
	wantProtocol(t, err, "no data and no end of file")
	for _, count := range []uint32{0, 4, 6, 1 << 31} {
		_, err = read(0, &wire.ReadRes{Count: count, Data: wire.Inline([]byte("hello"))})
		wantProtocol(t, err, "5 bytes of data")
	}
	var malformed *xdr.Error
	if _, err = read(0, &wire.ReadRes{Count: 9, Data: wire.Inline([]byte("123456789"))}); !errors.As(err, &malformed) {
		t.Errorf("more data than asked for: %v", err)
	}
	r, err = read(0, &wire.ReadRes{Status: nfsclient.ErrAccess, Attr: filePost})
	wantStatus(t, err, nfsclient.ErrAccess)
	if !r.Attr.Set || r.N != 0 {
		t.Errorf("with a failure: %+v", r)
	}
	if r, err := c.Read(t.Context(), cred, "h", nil, 0, nil); err != nil || r != (nfsclient.ReadResult{}) {
		t.Errorf("read of nothing: %+v, %v", r, err)
	}
}

// Reads and writes larger than the server takes are cut.
func TestReadWriteCut(t *testing.T) {
	c, nfs, a, _ := mounted(t)
	var ra wire.ReadArgs
	nfs.expect(nfsStep(wire.ProcRead, &wire.ReadRes{Count: 1, Data: wire.Inline([]byte("x"))}).with(&ra, func(t *testing.T) {
		if ra.Count != 1<<20 {
			t.Errorf("READ of %d bytes", ra.Count)
		}
	}))
	if _, err := c.Read(t.Context(), cred, "h", nil, 0, mem.Vec{a.Seg(0, 1<<20), a.Seg(1<<20, 1)}); err != nil {
		t.Error(err)
	}
	var wa wire.WriteArgs
	nfs.expect(nfsStep(wire.ProcWrite, &wire.WriteRes{Count: 1 << 19}).with(&wa, func(t *testing.T) {
		if wa.Count != 1<<19 || wa.Data.Len != 1<<19 {
			t.Errorf("WRITE of %d bytes, %d given", wa.Count, wa.Data.Len)
		}
	}))
	if r, err := c.Write(t.Context(), cred, "h", nil, 0, mem.Vec{a.Seg(0, 1<<20)}, nfsclient.Unstable); err != nil || r.N != 1<<19 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestWrite(t *testing.T) {
	c, nfs, a, _ := mounted(t)
	from := mem.Vec{a.Seg(10, 2), a.Seg(50, 3)}
	from.CopyIn(0, []byte("hello"))
	write := func(how nfsclient.Stable, res *wire.WriteRes) (nfsclient.WriteResult, error) {
		var args wire.WriteArgs
		nfs.expect(nfsStep(wire.ProcWrite, res).with(&args, func(t *testing.T) {
			if args.Handle != "h" || args.Offset != 9 || args.Count != 5 || args.Stable != how || string(args.Data.Data) != "hello" {
				t.Errorf("sent %+v", args)
			}
		}))
		return c.Write(t.Context(), cred, "h", nil, 9, from, how)
	}
	wcc := wire.Wcc{Before: wire.PreAttr{Set: true}, After: filePost}
	r, err := write(nfsclient.Unstable, &wire.WriteRes{Wcc: wcc, Count: 3, Committed: nfsclient.FileSync, Verifier: nfsclient.Verifier{1}})
	if err != nil || r.N != 3 || r.Committed != nfsclient.FileSync || r.Verifier != (nfsclient.Verifier{1}) || !r.Wcc.After.Set || !r.Wcc.Before.Set {
		t.Errorf("%+v, %v", r, err)
	}
	for _, count := range []uint32{0, 6, 1<<32 - 1} {
		r, err = write(nfsclient.Unstable, &wire.WriteRes{Count: count})
		wantProtocol(t, err, "for 5 bytes")
		if r.N != 0 {
			t.Errorf("%+v", r)
		}
	}
	_, err = write(nfsclient.DataSync, &wire.WriteRes{Count: 5, Committed: nfsclient.Unstable})
	wantProtocol(t, err, "committed 0 where 1")
	r, err = write(nfsclient.Unstable, &wire.WriteRes{Status: nfsclient.ErrNoSpace, Wcc: wcc})
	wantStatus(t, err, nfsclient.ErrNoSpace)
	if !r.Wcc.After.Set {
		t.Errorf("with a failure: %+v", r)
	}
	if _, err := c.Write(t.Context(), cred, "h", nil, 0, nil, nfsclient.Unstable); err == nil {
		t.Error("write of nothing succeeded")
	}
}

func TestCommit(t *testing.T) {
	c, nfs, _, _ := mounted(t)
	var args wire.CommitArgs
	nfs.expect(nfsStep(wire.ProcCommit, &wire.CommitRes{Wcc: wire.Wcc{After: filePost}, Verifier: nfsclient.Verifier{7}}).with(&args, func(t *testing.T) {
		if args != (wire.CommitArgs{Handle: "h", Offset: 4096, Count: 100}) {
			t.Errorf("%+v", args)
		}
	}), nfsStep(wire.ProcCommit, &wire.CommitRes{Status: nfsclient.ErrIO}))
	v, wcc, err := c.Commit(t.Context(), cred, "h", 4096, 100)
	if err != nil || v != (nfsclient.Verifier{7}) || !wcc.After.Set {
		t.Errorf("%v %+v %v", v, wcc, err)
	}
	_, _, err = c.Commit(t.Context(), cred, "h", 0, 0)
	wantStatus(t, err, nfsclient.ErrIO)
}

// madeCaller answers every call with a reply made before.
type madeCaller struct {
	transport.Caller
	w, args xdr.Writer
	r       xdr.Reader
}

func (c *madeCaller) Call(_ context.Context, call *transport.Call) error {
	c.args.Reset(c.args.Bytes(), call.Send)
	call.Args(&c.args)
	c.r.Reset(c.w.Bytes(), call.Recv)
	return call.Result(&c.r)
}

// TestDataAllocatesNothing: READ and WRITE, attributes in their replies included.
func TestDataAllocatesNothing(t *testing.T) {
	to := mem.Vec{memtest.Arena(t, 4096).Seg(0, 4096)}
	made := func(reply wire.Message) *Client {
		caller := &madeCaller{}
		reply.Append(&caller.w)
		return &Client{caller: caller, info: nfsclient.Info{ReadMax: 4096, WriteMax: 4096}}
	}
	read := made(&wire.ReadRes{Attr: filePost, Count: 5, Data: wire.Inline([]byte("hello"))})
	garbage.None(t, func() {
		if r, err := read.Read(t.Context(), cred, "h", nil, 0, to); err != nil || r.N != 5 || !r.Attr.Set {
			t.Fatalf("%+v, %v", r, err)
		}
	})
	write := made(&wire.WriteRes{Wcc: wire.Wcc{Before: wire.PreAttr{Set: true}, After: filePost}, Count: 4096, Committed: nfsclient.FileSync})
	garbage.None(t, func() {
		if r, err := write.Write(t.Context(), cred, "h", nil, 0, to, nfsclient.FileSync); err != nil || r.N != 4096 || !r.Wcc.After.Set {
			t.Fatalf("%+v, %v", r, err)
		}
	})
}
