package callback

import (
	"context"
	"reflect"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

var session = wire.SessionID{1, 2, 3}

// client notes what it is told.
type client struct {
	nobody
	mu      sync.Mutex
	recalls []nfsclient.Handle
	// entered and leave, if set, hold Recall up.
	entered, leave chan struct{}
}

func (c *client) Recall(h nfsclient.Handle, _ wire.Stateid, _ bool) wire.Status {
	if c.entered != nil {
		c.entered <- struct{}{}
		<-c.leave
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recalls = append(c.recalls, h)
	return wire.OK
}

func (c *client) GetAttr(_ nfsclient.Handle, want wire.Bitmap) (wire.Attrs, wire.Status) {
	return wire.Attrs{Mask: want.And(wire.BitmapOf(wire.AttrSize)), Size: 77}, wire.OK
}

func (c *client) seen() []nfsclient.Handle {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recalls
}

// call serves one compound, and decodes the results into it.
func call(t *testing.T, s *Service, c *wire.CBCompound) {
	t.Helper()
	var args, reply xdr.Writer
	c.AppendArgs(&args)
	var r xdr.Reader
	r.Reset(args.Bytes(), nil)
	q := &transport.Request{Prog: wire.CallbackProgram, Vers: wire.CallbackVersion, Proc: wire.ProcCBCompound, Args: &r, Reply: &reply}
	if st := s.Serve(context.Background(), q); st != transport.Success {
		t.Fatalf("accept_stat %d", st)
	}
	r.Reset(reply.Bytes(), nil)
	c.ParseRes(&r)
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
}

// compound is ops behind CB_SEQUENCE.
func compound(slot, seq uint32, ops ...wire.CBOperation) *wire.CBCompound {
	return &wire.CBCompound{Tag: "t", Minor: 1, Ops: append([]wire.CBOperation{&wire.CBSequence{Session: session, Slot: slot, SequenceID: seq, HighestSlot: slot}}, ops...)}
}

func created() (*Service, *client) {
	s, c := New(Config{}), new(client)
	s.Creating()
	s.Created(Session{ID: session, Minor: 1, Slots: 2})
	s.Attach(c)
	return s, c
}

func TestSequence(t *testing.T) {
	s, c := created()
	first := compound(0, 1, &wire.CBRecall{Handle: "a"})
	call(t, s, first)
	seq, _ := first.Ops[0].(*wire.CBSequence)
	if first.Status != wire.OK || first.Done != 2 || seq.ResSession != session || seq.ResSequenceID != 1 || seq.ResHighestSlot != 1 || seq.TargetHighestSlot != 1 {
		t.Errorf("%+v, %+v", first, seq)
	}
	// Sent again, it is answered, and not carried out again.
	again := compound(0, 1, &wire.CBRecall{Handle: "a"})
	call(t, s, again)
	if again.Status != wire.OK || again.Done != 2 || len(c.seen()) != 1 {
		t.Errorf("sent again: %+v, recalled %q", again, c.seen())
	}
	for name, test := range map[string]struct {
		c  *wire.CBCompound
		st wire.Status
	}{
		"another call under the same ID":   {compound(0, 1, &wire.CBRecallSlot{}), wire.ErrSeqFalseRetry},
		"an ID too far":                    {compound(0, 3, &wire.CBRecallSlot{}), wire.ErrSeqMisordered},
		"an old ID":                        {compound(0, 0, &wire.CBRecallSlot{}), wire.ErrSeqMisordered},
		"before the first":                 {compound(1, 0, &wire.CBRecallSlot{}), wire.ErrSeqMisordered},
		"a slot that is not there":         {compound(2, 1, &wire.CBRecallSlot{}), wire.ErrBadSlot},
		"too many operations":              {compound(1, 1, &wire.CBRecallSlot{}, &wire.CBRecallSlot{}, &wire.CBRecallSlot{}, &wire.CBRecallSlot{}), wire.ErrTooManyOps},
		"a highest slot that is not there": {&wire.CBCompound{Minor: 1, Ops: []wire.CBOperation{&wire.CBSequence{Session: session, SequenceID: 1, Slot: 1, HighestSlot: 2}}}, wire.ErrBadHighSlot},
		"another session":                  {&wire.CBCompound{Minor: 1, Ops: []wire.CBOperation{&wire.CBSequence{SequenceID: 1}}}, wire.ErrBadSession},
		"no sequence":                      {&wire.CBCompound{Minor: 1, Ops: []wire.CBOperation{&wire.CBRecallSlot{}}}, wire.ErrOpNotInSession},
	} {
		if call(t, s, test.c); test.c.Status != test.st || test.c.Done != 1 {
			t.Errorf("%s: %+v", name, test.c)
		}
	}
	other := compound(1, 1)
	other.Minor = 2
	if call(t, s, other); other.Status != wire.ErrMinorVersMismatch || other.Done != 0 {
		t.Errorf("another minor version: %+v", other)
	}
	if len(c.seen()) != 1 {
		t.Errorf("recalled: %q", c.seen())
	}
	next := compound(0, 2, &wire.CBRecall{Handle: "b"})
	if call(t, s, next); next.Status != wire.OK || !reflect.DeepEqual(c.seen(), []nfsclient.Handle{"a", "b"}) {
		t.Errorf("next: %+v, recalled %q", next, c.seen())
	}
}

// A call that is sent again while it is carried out is not carried out twice.
func TestReplayUnderWay(t *testing.T) {
	s, c := created()
	c.entered, c.leave = make(chan struct{}), make(chan struct{})
	done := make(chan *wire.CBCompound)
	go func() {
		first := compound(0, 1, &wire.CBRecall{Handle: "a"})
		call(t, s, first)
		done <- first
	}()
	<-c.entered
	again := compound(0, 1, &wire.CBRecall{Handle: "a"})
	if call(t, s, again); again.Status != wire.ErrDelay {
		t.Errorf("sent again: %+v", again)
	}
	next := compound(0, 2, &wire.CBRecall{Handle: "b"})
	if call(t, s, next); next.Status != wire.ErrSeqMisordered {
		t.Errorf("the next on the same slot: %+v", next)
	}
	close(c.leave)
	if first := <-done; first.Status != wire.OK || len(c.seen()) != 1 {
		t.Errorf("%+v", first)
	}
}

// A callback may overtake the reply to CREATE_SESSION.
func TestEarlyCallback(t *testing.T) {
	s := New(Config{})
	early := compound(0, 1, &wire.CBRecallSlot{})
	if call(t, s, early); early.Status != wire.ErrBadSession {
		t.Errorf("without a session: %+v", early)
	}
	s.Creating()
	if call(t, s, early); early.Status != wire.ErrDelay {
		t.Errorf("while it is created: %+v", early)
	}
	s.Created(Session{ID: session, Minor: 1, Slots: 1})
	if call(t, s, early); early.Status != wire.OK {
		t.Errorf("after that: %+v", early)
	}
	s.Creating()
	s.NotCreated()
	if call(t, s, compound(0, 2)); !s.known {
		t.Error("the session of before was forgotten")
	}
	s.Created(Session{ID: wire.SessionID{9}, Minor: 1})
	if call(t, s, early); early.Status != wire.ErrBadSession {
		t.Errorf("without a back channel: %+v", early)
	}
}

func TestOperations(t *testing.T) {
	s, _ := created()
	attrs := &wire.CBGetAttr{Handle: "a", Want: wire.BitmapOf(wire.AttrSize, wire.AttrChange)}
	all := compound(0, 1, attrs, &wire.CBRecallAny{Keep: 1}, &wire.CBNotifyLock{Handle: "a"})
	if call(t, s, all); all.Status != wire.OK || all.Done != 4 || attrs.Attrs.Size != 77 {
		t.Errorf("%+v, %+v", all, attrs)
	}
	seq := uint32(1)
	for number, st := range map[wire.CBOp]wire.Status{wire.OpCBLayoutRecall: wire.ErrNoMatchingLayout, wire.OpCBNotify: nfsclient.ErrNotSupp,
		wire.OpCBPushDeleg: nfsclient.ErrNotSupp, wire.OpCBWantsCancelled: nfsclient.ErrNotSupp, wire.OpCBNotifyDeviceID: nfsclient.ErrNotSupp,
		wire.OpCBOffload: wire.ErrOpIllegal, 99: wire.ErrOpIllegal} {
		seq++
		c := compound(0, seq, &wire.CBUnknown{Number: number}, &wire.CBRecallSlot{})
		if call(t, s, c); c.Status != st || c.Done != 2 {
			t.Errorf("%v: %+v", number, c)
		}
	}
	c := compound(0, seq+1, &wire.CBSequence{Session: session})
	if call(t, s, c); c.Status != wire.ErrSequencePos || c.Done != 2 {
		t.Errorf("CB_SEQUENCE twice: %+v", c)
	}
	s.Attach(nil)
	c = compound(0, seq+2, &wire.CBRecall{Handle: "a"})
	if call(t, s, c); c.Status != wire.ErrBadStateid {
		t.Errorf("recall without a Client: %+v", c)
	}
}

func TestProgram(t *testing.T) {
	s, _ := created()
	for name, test := range map[string]struct {
		q    transport.Request
		args []byte
		st   transport.AcceptStat
	}{
		"null":            {transport.Request{Prog: wire.CallbackProgram, Vers: 1}, nil, transport.Success},
		"version 4":       {transport.Request{Prog: wire.CallbackProgram, Vers: 4}, nil, transport.Success},
		"version 2":       {transport.Request{Prog: wire.CallbackProgram, Vers: 2}, nil, transport.ProgMismatch},
		"another program": {transport.Request{Prog: wire.Program, Vers: 4}, nil, transport.ProgUnavail},
		"no procedure":    {transport.Request{Prog: wire.CallbackProgram, Vers: 1, Proc: 2}, nil, transport.ProcUnavail},
		"garbage":         {transport.Request{Prog: wire.CallbackProgram, Vers: 1, Proc: 1}, []byte{0, 0, 0, 1}, transport.GarbageArgs},
		"null with data":  {transport.Request{Prog: wire.CallbackProgram, Vers: 1}, []byte{0, 0, 0, 1}, transport.GarbageArgs},
	} {
		var r xdr.Reader
		r.Reset(test.args, nil)
		q := test.q
		q.Args, q.Reply = &r, new(xdr.Writer)
		if st := s.Serve(context.Background(), &q); st != test.st {
			t.Errorf("%s: %d", name, st)
		}
	}
}

func FuzzServe(f *testing.F) {
	for _, c := range []*wire.CBCompound{compound(0, 1, &wire.CBRecall{Handle: "a"}), compound(1, 1, &wire.CBGetAttr{Handle: "b"}, &wire.CBOffload{}), compound(0, 0)} {
		var w xdr.Writer
		c.AppendArgs(&w)
		f.Add(w.Bytes())
	}
	f.Fuzz(func(t *testing.T, args []byte) {
		s, _ := created()
		var r xdr.Reader
		r.Reset(args, nil)
		var reply xdr.Writer
		s.Serve(context.Background(), &transport.Request{Prog: wire.CallbackProgram, Vers: 1, Proc: 1, Args: &r, Reply: &reply})
		if n := reply.Len(); n > len(args)+4096 {
			t.Errorf("a call of %d bytes is answered with %d", len(args), n)
		}
	})
}
