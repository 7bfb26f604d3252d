package nfsd

import (
	"context"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/script"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// told is the connection of a client that notes CB_OFFLOAD, and answers it with status.
type told struct {
	status wire.Status
	copies chan wire.CBOffload
}

func (*told) Done() <-chan struct{} { return nil }

func (h *told) Call(_ context.Context, q *transport.Call) error {
	return answerCallback(q, func(c *wire.CBCompound, op wire.CBOperation) {
		if o, ok := op.(*wire.CBOffload); ok {
			c.Status = h.status
			h.copies <- *o
		}
	})
}

// answerCallback answers a CB_COMPOUND: CB_SEQUENCE as asked for, and what each handles of the others.
func answerCallback(q *transport.Call, each func(c *wire.CBCompound, op wire.CBOperation)) error {
	var w xdr.Writer
	q.Args(&w)
	var r xdr.Reader
	r.Reset(w.Bytes(), nil)
	var c wire.CBCompound
	if c.ParseArgs(&r); r.End() != nil {
		return r.End()
	}
	for _, op := range c.Ops {
		if o, ok := op.(*wire.CBSequence); ok {
			o.ResSession, o.ResSequenceID, o.ResSlot = o.Session, o.SequenceID, o.Slot
			o.ResHighestSlot, o.TargetHighestSlot = o.HighestSlot, o.HighestSlot
		}
		each(&c, op)
	}
	c.Done = len(c.Ops)
	var out xdr.Writer
	c.AppendRes(&out)
	r.Reset(out.Bytes(), nil)
	return q.Result(&r)
}

// TestOffload4: a COPY that need not be synchronous goes on after its answer if the script wants so, and
// the client is told of its end, or asks for it.
func TestOffload4(t *testing.T) {
	for name, status := range map[string]wire.Status{"told": wire.OK, "asks": nfsclient.ErrServerFault} {
		t.Run(name, func(t *testing.T) {
			s := script.New()
			c := start4(t, 2, Config{Exports: []Export{{Path: "/x"}}, Faults: &Faults{Operation: s.Operation, Offload: s.Offload}})
			h := &told{status: status, copies: make(chan wire.CBOffload, 1)}
			c.back = h
			c.begin(1024)
			open := func(name string) *wire.Open {
				o := &wire.Open{Access: wire.ShareBoth | wire.WantNoDeleg, Owner: wire.Owner{Owner: "o"}, Create: true, Claim: wire.ClaimNull, Name: name}
				c.do(wire.OK, append(walkTo("x"), o)...)
				return o
			}
			from, to := open("from"), open("to")
			write := &wire.Write{Stateid: from.Stateid, Stable: nfsclient.FileSync, Data: wire.Inline([]byte("contents"))}
			c.do(wire.OK, append(walkTo("x", "from"), write)...)
			cp := func(sync bool) *wire.Copy {
				o := &wire.Copy{From: from.Stateid, To: to.Stateid, Count: 8, Consecutive: true, Synchronous: sync}
				c.do(wire.OK, append(append(append(walkTo("x", "from"), &wire.SaveFH{}), walkTo("x", "to")...), o)...)
				return o
			}
			if o := cp(false); o.HasCallback || o.Copied != 8 {
				t.Errorf("without an order: %+v", o)
			}
			if err := s.Do("async-copy on"); err != nil {
				t.Fatal(err)
			}
			if o := cp(true); o.HasCallback || !o.ResSynchronous || o.Copied != 8 {
				t.Errorf("synchronous: %+v", o)
			}
			o := cp(false)
			if !o.HasCallback || o.ResSynchronous {
				t.Fatalf("asynchronous: %+v", o)
			}
			select {
			case got := <-h.copies:
				if got.Stateid != o.Callback || got.Outcome != wire.OK || got.Copied != 8 || got.Verifier != o.Verifier {
					t.Errorf("%+v", got)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("no CB_OFFLOAD")
			}
			ask := &wire.OffloadStatus{Stateid: o.Callback}
			if status != wire.OK {
				c.do(wire.OK, append(walkTo("x", "to"), ask)...)
				if ask.Copied != 8 || !ask.Complete || ask.Outcome != wire.OK {
					t.Errorf("%+v", ask)
				}
			}
			ask.Stateid.Other[11]++
			c.do(wire.ErrBadStateid, append(walkTo("x", "to"), ask)...)
			// The stateid of a copy is good for nothing else.
			read := &wire.Read{Stateid: o.Callback, Count: 8}
			c.do(wire.ErrBadStateid, append(walkTo("x", "to"), read)...)
		})
	}
}
