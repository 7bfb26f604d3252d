package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// fault is what happens to one transmission of a compound.
type fault uint8

const (
	none fault = iota
	// lostRequest: it never arrives, and the transport sends it again.
	lostRequest
	// lostReply: it is carried out, and the transport sends it again.
	lostReply
	// unanswered: it is carried out, and nothing more is heard until the caller gives up.
	unanswered
	// swallowed: it never arrives, and nothing more is heard until the caller gives up.
	swallowed
	// timedOut: it is carried out, and a soft mount's transport gives up.
	timedOut
	// notSent: a transport could not send it.
	notSent
)

// decision is what a script says of a compound.
type decision struct {
	fault fault
	// status is that of the first operation, if it is not OK; nothing is carried out.
	status wire.Status
	// amend changes the results before they are sent.
	amend func(c *wire.Compound)
}

// server is a server of NFSv4.1 with sessions, in memory, and the transport to it. REMOVE of a name
// is what it counts; names that begin with "reclaim" are state that is reclaimed.
type server struct {
	// script is asked about each transmission, without mu.
	script func(c *wire.Compound) decision
	// credits, if set, bounds the calls that are outstanding.
	credits chan struct{}

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at each compound
	boot     uint64
	clients  map[string]*srvClient
	sessions map[wire.SessionID]*srvSession
	serial   uint64
	lease    uint32
	slots    uint32 // granted at CREATE_SESSION
	limits   wire.Channel
	target   uint32 // sr_target_highest_slotid, if not 0
	flags    uint32
	asked    wire.CreateSession // the last
	strict   bool               // a connection with a fore channel gets no back channel
	done     map[string]int     // REMOVE, by name
	log      []string           // operations, in order
	seen     []wire.Sequence
	maxSlot  uint32
	hold     chan struct{} // REMOVE of "slow" waits for it, on the server
	// wrong are the requests with which the client has broken the protocol.
	wrong []string
}

type srvClient struct {
	id        wire.ClientID
	owner     string
	verifier  [8]byte
	confirmed bool
	complete  bool
	next      uint32
	last      []byte // the reply to the last CREATE_SESSION
}

type srvSession struct {
	client *srvClient
	slots  map[uint32]*srvSlot
}

type srvSlot struct {
	seq     uint32
	running bool
	args    []byte
	cached  bool
	reply   []byte
}

func newServer() *server {
	return &server{clients: map[string]*srvClient{}, sessions: map[wire.SessionID]*srvSession{}, lease: 90, slots: 1 << 10, boot: 1,
		limits:  wire.Channel{MaxRequest: 1 << 20, MaxResponse: 1 << 20, MaxResponseCached: 2048, MaxOps: 50},
		changed: make(chan struct{}), done: map[string]int{}}
}

var _ transport.Caller = (*server)(nil)

func (*server) Register(*mem.Arena) error   { return nil }
func (*server) Unregister(*mem.Arena) error { return nil }
func (v *server) Limits() transport.Limits {
	if v.credits != nil {
		return transport.Limits{Concurrent: cap(v.credits)}
	}
	return transport.Limits{Concurrent: 64}
}
func (*server) Stats() transport.Stats { return transport.Stats{} }
func (*server) Close() error           { return nil }

// Call implements transport.Caller.
func (v *server) Call(ctx context.Context, c *transport.Call) error {
	sent := false
	if v.credits != nil {
		select {
		case v.credits <- struct{}{}:
			defer func() { <-v.credits }()
		case <-ctx.Done():
			return &transport.Error{Fate: transport.NotSent, Err: ctx.Err()}
		}
	}
	for {
		if err := ctx.Err(); err != nil {
			fate := transport.NotSent
			if sent {
				fate = transport.Unknown
			}
			return &transport.Error{Fate: fate, Err: err}
		}
		var w xdr.Writer
		w.Reset(nil, c.Send)
		c.Args(&w)
		args := bytes.Clone(w.Bytes())
		comp := new(wire.Compound)
		var r xdr.Reader
		r.Reset(args, nil)
		comp.ParseArgs(&r)
		if err := r.End(); err != nil {
			return fmt.Errorf("the server cannot decode the request: %w", err)
		}
		var d decision
		if v.script != nil {
			d = v.script(comp)
		}
		var reply []byte
		switch d.fault {
		case notSent:
			return &transport.Error{Fate: transport.NotSent, Err: errors.New("no connection")}
		case lostRequest, swallowed:
		case unanswered:
			go v.serve(comp, d)
		default:
			reply = v.serve(comp, d)
		}
		sent = true
		switch d.fault {
		case lostRequest, lostReply:
			c.Resent = true
			continue
		case timedOut:
			return &transport.Error{Fate: transport.Unknown, Err: transport.ErrTimeout}
		case unanswered, swallowed:
			<-ctx.Done()
			continue
		}
		if len(reply) > c.ReplyMax {
			return &transport.Error{Fate: transport.Answered, Err: transport.ErrReplyBound}
		}
		var res xdr.Reader
		res.Reset(reply, c.Recv)
		if c.Result == nil {
			return nil
		}
		if err := c.Result(&res); err != nil {
			return &transport.Error{Fate: transport.Answered, Err: err}
		}
		return nil
	}
}

func encode(c *wire.Compound) []byte {
	var w xdr.Writer
	c.AppendRes(&w)
	return bytes.Clone(w.Bytes())
}

// serve carries out a compound, and returns the reply.
func (v *server) serve(c *wire.Compound, d decision) []byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	defer v.tell()
	end := func(st wire.Status) []byte {
		c.Status, c.Done = st, 1
		if d.amend != nil {
			d.amend(c)
		}
		return encode(c)
	}
	for _, o := range c.Ops {
		v.log = append(v.log, o.Op().String())
	}
	if d.status != wire.OK {
		if q, ok := c.Ops[0].(*wire.Sequence); ok {
			v.seen = append(v.seen, *q)
			if d.status == wire.ErrRetryUncachedRep {
				return v.uncached(c, q)
			}
		}
		return end(d.status)
	}
	switch o := c.Ops[0].(type) {
	case *wire.ExchangeID:
		return end(v.exchange(o))
	case *wire.CreateSession:
		return v.create(o, c)
	case *wire.DestroySession:
		if v.sessions[o.Session] == nil {
			return end(wire.ErrBadSession)
		}
		for _, s := range v.sessions[o.Session].slots {
			if s.running {
				return end(wire.ErrDelay)
			}
		}
		delete(v.sessions, o.Session)
		return end(wire.OK)
	case *wire.DestroyClientID:
		cl := v.client(o.ClientID)
		if cl == nil {
			return end(wire.ErrStaleClientID)
		}
		for _, s := range v.sessions {
			if s.client == cl {
				return end(wire.ErrClientIDBusy)
			}
		}
		delete(v.clients, cl.owner)
		return end(wire.OK)
	case *wire.BindConnToSession:
		if v.sessions[o.Session] == nil {
			return end(wire.ErrBadSession)
		}
		if v.strict && o.Dir != wire.BindFore {
			return end(nfsclient.ErrInval)
		}
		if o.ResSession, o.ResDir = o.Session, wire.BoundFore; o.Dir != wire.BindFore {
			o.ResDir = wire.BoundBoth
			v.flags &^= wire.SeqCBPathDown | wire.SeqCBPathDownSession
		}
		return end(wire.OK)
	case *wire.Sequence:
		return v.sequence(o, c, d)
	}
	return end(wire.ErrOpNotInSession)
}

// tell wakes those who await something. mu is held.
func (v *server) tell() {
	close(v.changed)
	v.changed = make(chan struct{})
}

func (v *server) client(id wire.ClientID) *srvClient {
	for _, c := range v.clients {
		if c.id == id {
			return c
		}
	}
	return nil
}

func (v *server) exchange(o *wire.ExchangeID) wire.Status {
	c := v.clients[string(o.Owner)]
	if c == nil || !c.confirmed || c.verifier != [8]byte(o.Verifier) {
		v.serial++
		c = &srvClient{id: wire.ClientID(v.boot<<32 | v.serial), owner: string(o.Owner), verifier: [8]byte(o.Verifier), next: 1 + uint32(v.serial)}
		v.clients[c.owner] = c
	}
	o.ClientID, o.SequenceID, o.ServerMajor, o.ServerScope, o.ResFlags = c.id, c.next, "server", "scope", wire.ExchangeUseNonPNFS
	if c.confirmed {
		o.ResFlags |= wire.ExchangeConfirmedR
	}
	return wire.OK
}

func (v *server) create(o *wire.CreateSession, c *wire.Compound) []byte {
	cl := v.client(o.ClientID)
	c.Done = 1
	switch {
	case cl == nil:
		c.Status = wire.ErrStaleClientID
		return encode(c)
	case o.SequenceID == cl.next-1 && cl.last != nil:
		return cl.last
	case o.SequenceID != cl.next:
		c.Status = wire.ErrSeqMisordered
		return encode(c)
	}
	cl.next++
	cl.confirmed = true
	v.serial++
	id := wire.SessionID{0: byte(v.boot), 8: byte(v.serial >> 8), 9: byte(v.serial)}
	v.sessions[id] = &srvSession{client: cl, slots: map[uint32]*srvSlot{}}
	o.Session, o.ResSequenceID, o.ResFlags = id, o.SequenceID, o.Flags&wire.SessionConnBackChan
	v.asked = *o
	v.flags &^= backFlags
	least := func(a, b uint32) uint32 { return min(a, b) }
	o.ResFore = wire.Channel{MaxRequest: least(o.Fore.MaxRequest, v.limits.MaxRequest), MaxResponse: least(o.Fore.MaxResponse, v.limits.MaxResponse),
		MaxResponseCached: least(o.Fore.MaxResponseCached, v.limits.MaxResponseCached), MaxOps: least(o.Fore.MaxOps, v.limits.MaxOps),
		MaxRequests: least(o.Fore.MaxRequests, v.slots)}
	o.ResBack = o.Back
	cl.last = encode(c)
	return cl.last
}

func (v *server) sequence(q *wire.Sequence, c *wire.Compound, d decision) []byte {
	// sa_highest_slotid may be another the next time; the operations may not.
	var w xdr.Writer
	(&wire.Compound{Minor: c.Minor, Ops: c.Ops[1:]}).AppendArgs(&w)
	args := bytes.Clone(w.Bytes())
	v.seen = append(v.seen, *q)
	v.maxSlot = max(v.maxSlot, q.Slot)
	end := func(st wire.Status) []byte {
		c.Status, c.Done = st, 1
		return encode(c)
	}
	wrong := func(st wire.Status) []byte {
		if d.fault == unanswered {
			return end(st) // it may come after its slot was cleaned
		}
		v.wrong = append(v.wrong, fmt.Sprintf("%s: %+v", wire.StatusName(st), *q))
		return end(st)
	}
	sess := v.sessions[q.Session]
	if sess == nil {
		return end(wire.ErrBadSession)
	}
	switch {
	case q.Slot >= v.slots:
		return wrong(wire.ErrBadSlot)
	case q.HighestSlot >= v.slots || q.HighestSlot < q.Slot:
		return wrong(wire.ErrBadHighSlot)
	}
	s := sess.slots[q.Slot]
	if s == nil {
		s = &srvSlot{}
		sess.slots[q.Slot] = s
	}
	switch {
	case q.SequenceID == s.seq && s.running:
		return end(wire.ErrDelay)
	case q.SequenceID == s.seq && len(c.Ops) > 1 && !bytes.Equal(args, s.args):
		return wrong(wire.ErrSeqFalseRetry)
	case q.SequenceID == s.seq && s.cached != q.CacheThis:
		return wrong(wire.ErrSeqFalseRetry)
	case q.SequenceID == s.seq && !s.cached && s.reply == nil && len(c.Ops) > 1:
		// In place of the second operation (RFC 8881 section 2.10.6.1.3).
		q.ResSession, q.ResSlot, q.ResSequenceID = q.Session, q.Slot, q.SequenceID
		q.ResHighestSlot, q.TargetHighestSlot = v.slots-1, v.slots-1
		c.Status, c.Done = wire.ErrRetryUncachedRep, 2
		return encode(c)
	case q.SequenceID == s.seq && !s.cached && s.reply == nil:
		return v.uncached(c, q)
	case q.SequenceID == s.seq:
		return s.reply
	case q.SequenceID != s.seq+1:
		return wrong(wire.ErrSeqMisordered)
	}
	s.seq, s.running, s.args, s.cached, s.reply = q.SequenceID, true, args, q.CacheThis, nil
	v.answer(q)
	c.Status, c.Done = wire.OK, len(c.Ops)
	for i, o := range c.Ops[1:] {
		if st := v.op(o, sess); st != wire.OK {
			c.Status, c.Done = st, i+2
			break
		}
	}
	if d.amend != nil {
		d.amend(c)
	}
	reply := encode(c)
	s.running = false
	if s.cached || len(c.Ops) == 1 {
		s.reply = reply
	}
	return reply
}

// answer fills in the results of SEQUENCE.
func (v *server) answer(q *wire.Sequence) {
	q.ResSession, q.ResSlot, q.ResSequenceID = q.Session, q.Slot, q.SequenceID
	q.ResHighestSlot, q.TargetHighestSlot, q.StatusFlags = v.slots-1, v.slots-1, v.flags
	if v.target != 0 {
		q.TargetHighestSlot = v.target
	}
}

// uncached answers a request that was carried out, and whose reply was not kept: SEQUENCE
// succeeds, and the operation behind it has the error (RFC 8881 section 2.10.6.1.3).
func (v *server) uncached(c *wire.Compound, q *wire.Sequence) []byte {
	v.answer(q)
	if len(c.Ops) == 1 {
		c.Status, c.Done = wire.OK, 1
	} else {
		c.Status, c.Done = wire.ErrRetryUncachedRep, 2
	}
	return encode(c)
}

func (v *server) op(o wire.Operation, sess *srvSession) wire.Status {
	switch o := o.(type) {
	case *wire.PutRootFH:
	case *wire.GetAttr:
		o.Attrs.Mask, o.Attrs.LeaseTime = o.Want, v.lease
	case *wire.ReclaimComplete:
		if sess.client.complete {
			return wire.ErrCompleteAlready
		}
		sess.client.complete = true
		v.flags &^= wire.SeqRestartReclaimNeeded
	case *wire.Remove:
		reclaim := strings.HasPrefix(o.Name, "reclaim")
		if reclaim == sess.client.complete {
			return map[bool]wire.Status{true: wire.ErrNoGrace, false: wire.ErrGrace}[reclaim]
		}
		if o.Name == "slow" && v.hold != nil {
			hold := v.hold
			v.tell()
			v.mu.Unlock()
			<-hold
			v.mu.Lock()
		}
		v.done[o.Name]++
	default:
		return wire.ErrOpIllegal
	}
	return wire.OK
}

// restart forgets all clients and sessions.
func (v *server) restart() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.boot++
	clear(v.clients)
	clear(v.sessions)
}

// forget forgets the sessions alone.
func (v *server) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.sessions)
}

func (v *server) set(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
}

// await waits until cond holds, which is asked with mu held, after each compound.
func (v *server) await(ctx context.Context, cond func() bool) error {
	for {
		v.mu.Lock()
		ok, changed := cond(), v.changed
		v.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// count is how often an operation was in a request.
func (v *server) count(op wire.Op) (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, o := range v.log {
		if o == op.String() {
			n++
		}
	}
	return n
}

// clock fires short timers at once, as if their time had passed, and long ones when it is advanced.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*timer
}

type timer struct {
	c  *clock
	at time.Time
	f  func()
}

// atOnce is the longest pause that is over at once.
const atOnce = lastPause

func newClock() *clock { return &clock{now: time.Unix(1e9, 0)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) AfterFunc(d time.Duration, f func()) Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{c, c.now.Add(d), f}
	if d <= atOnce {
		c.now = c.now.Add(d)
		go f()
		return t
	}
	c.timers = append(c.timers, t)
	return t
}

func (t *timer) Stop() bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	i := slices.Index(t.c.timers, t)
	if i >= 0 {
		t.c.timers = slices.Delete(t.c.timers, i, i+1)
	}
	return i >= 0
}

// advance passes time.
func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	rest := c.timers[:0]
	for _, t := range c.timers {
		if t.at.After(c.now) {
			rest = append(rest, t)
		} else {
			go t.f()
		}
	}
	c.timers = rest
}
