package nfsd

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// notHere refuses what would fill the disk.
func notHere(_ context.Context, op wire.Operation) nfsclient.Status {
	if a, ok := op.(*wire.Allocate); ok && a.Length > 1<<20 {
		return nfsclient.ErrNoSpace
	}
	return nfsclient.OK
}

// FuzzCompound: whatever operations a client with a session sends, the server answers with a COMPOUND that can be
// parsed, or says that it cannot parse theirs.
func FuzzCompound(f *testing.F) {
	seed := func(ops ...wire.Operation) {
		var w xdr.Writer
		for _, o := range ops {
			w.Uint32(uint32(o.Op()))
			o.AppendArgs(&w)
		}
		f.Add(uint8(len(ops)), slices.Clone(w.Bytes()))
	}
	all := wire.Bitmap{^uint32(0), ^uint32(0), ^uint32(0)}
	mode := wire.Attrs{Mask: wire.BitmapOf(wire.AttrMode, wire.AttrSize), Mode: 0o644}
	open := &wire.Open{Access: wire.ShareBoth, Owner: wire.Owner{Owner: "o"}, Create: true, Attrs: mode, Claim: wire.ClaimNull, Name: "f"}
	x := walkTo("x")
	seed(append(x, &wire.GetAttr{Want: all}, &wire.ReadDir{MaxCount: 1000, Want: all})...)
	seed(append(x, open, &wire.Write{Stateid: wire.CurrentStateid, Data: wire.Inline([]byte("data"))}, &wire.Read{Stateid: wire.CurrentStateid, Count: 100},
		&wire.Seek{Stateid: wire.CurrentStateid, Hole: true}, &wire.Close{Stateid: wire.CurrentStateid})...)
	seed(append(x, open, &wire.SetAttr{Stateid: wire.CurrentStateid, Attrs: mode}, &wire.Verify{Attrs: mode}, &wire.Commit{}, &wire.Access{Want: 0x1ff})...)
	seed(append(x, &wire.SaveFH{}, &wire.Create{Type: nfsclient.Directory, Name: "d"}, &wire.Rename{From: "d", To: "e"}, &wire.RestoreFH{}, &wire.Remove{Name: "d"})...)
	seed(append(x, open, &wire.SaveFH{}, &wire.Copy{Count: 10, Synchronous: true}, &wire.Clone{}, &wire.Deallocate{Length: 5}, &wire.Allocate{Length: 5})...)
	seed(append(x, open, &wire.SetXattr{Name: "a", Value: []byte("v")}, &wire.GetXattr{Name: "a"}, &wire.ListXattrs{MaxCount: 500}, &wire.RemoveXattr{Name: "a"})...)
	seed(append(x, open, &wire.Lock{Type: wire.WriteLock, Length: wire.ToEnd, New: true, OpenStateid: wire.CurrentStateid}, &wire.LockT{Type: wire.ReadLock, Length: 1},
		&wire.LockU{Type: wire.ReadLock, Stateid: wire.CurrentStateid, Length: 3}, &wire.OpenDowngrade{Access: 1})...)
	seed(&wire.PutRootFH{}, &wire.SecInfo{Name: "x"}, &wire.PutFH{Handle: "handle"}, &wire.Link{Name: "l"}, &wire.LookupP{}, &wire.TestStateID{Stateids: make([]wire.Stateid, 2)})
	c := start4(f, 2, Config{Exports: []Export{{Path: "/x"}}, Faults: &Faults{Operation: notHere}})
	dir := c.s.exports[0].Dir
	f.Fuzz(func(t *testing.T, n uint8, ops []byte) {
		c.t = t
		var w xdr.Writer
		w.String("tag")
		w.Uint32(2)
		w.Uint32(uint32(n) + 1)
		w.Uint32(uint32(wire.OpSequence))
		c.sequence(n%2 == 0).AppendArgs(&w)
		w.Fixed(ops)
		args := slices.Clone(w.Bytes())
		stat, b := c.raw(context.Background(), c.xid.Add(1), wire.Program, wire.Version, wire.ProcCompound, args)
		var asked wire.Compound
		var r xdr.Reader
		r.Reset(args, nil)
		asked.ParseArgs(&r)
		switch {
		case stat == transport.GarbageArgs:
			if r.End() == nil {
				t.Fatal("what can be parsed was refused")
			}
			c.seq--
			return
		case stat != transport.Success:
			t.Fatalf("accept_stat %d", stat)
		}
		for _, o := range asked.Ops {
			switch o := o.(type) {
			case *wire.GetXattr:
				o.Limit = 0
			case *wire.Unknown:
				if !o.Defined(2) {
					return // answered as ILLEGAL
				}
			}
		}
		r.Reset(b, nil)
		if asked.ParseRes(&r); r.End() != nil {
			t.Fatalf("the answer to %x: %v", args, r.End())
		}
		for _, o := range asked.Ops[:asked.Done] {
			switch o.(type) {
			case *wire.DestroySession, *wire.CreateSession, *wire.ExchangeID, *wire.DestroyClientID:
				c.begin(1024)
			}
		}
		if asked.Status == wire.ErrBadSession || asked.Status == wire.ErrSeqMisordered {
			c.begin(1024)
		}
		if left, err := os.ReadDir(dir); err == nil && len(left) > 100 {
			for _, e := range left {
				if err := os.RemoveAll(dir + "/" + e.Name()); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
