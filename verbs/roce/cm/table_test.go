package cm

import (
	"fmt"
	"testing"
	"time"
)

// TestEveryPair puts a connection into each state, by the way that leads there,
// and has each input happen. want says what must come of it; what it does not
// name must change nothing.
func TestEveryPair(t *testing.T) {
	type outcome struct {
		to    state
		sends Attr // 0 is nothing
		event Kind // 0 is none
	}
	want := map[string]outcome{
		"reqSent MRA":     {reqWait, 0, 0},
		"reqSent REJ":     {gone, 0, Failed},
		"reqSent REP":     {activeUp, AttrRTU, Connected},
		"reqSent DREQ":    {gone, AttrDREP, Failed},
		"reqSent timer":   {reqSent, AttrREQ, 0},
		"reqSent expired": {gone, AttrREJ, Failed},
		"reqSent close":   {gone, AttrREJ, 0},

		"reqWait MRA":     {reqWait, 0, 0},
		"reqWait REJ":     {gone, 0, Failed},
		"reqWait REP":     {activeUp, AttrRTU, Connected},
		"reqWait DREQ":    {gone, AttrDREP, Failed},
		"reqWait timer":   {reqSent, AttrREQ, 0},
		"reqWait expired": {gone, AttrREJ, Failed},
		"reqWait close":   {gone, AttrREJ, 0},

		"reqRcvd REQ":     {reqRcvd, AttrMRA, 0},
		"reqRcvd REJ":     {gone, 0, Failed},
		"reqRcvd expired": {rejected, AttrREJ, Failed},
		"reqRcvd stale":   {gone, 0, Failed},
		"reqRcvd accept":  {repSent, AttrREP, 0},
		"reqRcvd reject":  {rejected, AttrREJ, 0},
		"reqRcvd close":   {rejected, AttrREJ, 0},

		"repSent REQ":     {repSent, AttrREP, 0},
		"repSent MRA":     {repWait, 0, 0},
		"repSent REJ":     {timewait, 0, Failed},
		"repSent RTU":     {passiveUp, 0, Established},
		"repSent data":    {passiveUp, 0, Established},
		"repSent DREQ":    {timewait, AttrDREP, Failed},
		"repSent timer":   {repSent, AttrREP, 0},
		"repSent expired": {timewait, AttrREJ, Failed},
		"repSent stale":   {timewait, 0, Failed},
		"repSent close":   {dreqSent, AttrDREQ, 0},

		"repWait REQ":     {repWait, AttrREP, 0},
		"repWait MRA":     {repWait, 0, 0},
		"repWait REJ":     {timewait, 0, Failed},
		"repWait RTU":     {passiveUp, 0, Established},
		"repWait data":    {passiveUp, 0, Established},
		"repWait DREQ":    {timewait, AttrDREP, Failed},
		"repWait timer":   {repSent, AttrREP, 0},
		"repWait expired": {timewait, AttrREJ, Failed},
		"repWait stale":   {timewait, 0, Failed},
		"repWait close":   {dreqSent, AttrDREQ, 0},

		"activeUp REJ":     {timewait, 0, Disconnected},
		"activeUp REP":     {activeUp, AttrRTU, 0},
		"activeUp DREQ":    {timewait, AttrDREP, Disconnected},
		"activeUp timer":   {activeUp, AttrRTU, 0},
		"activeUp expired": {activeUp, 0, 0},
		"activeUp stale":   {dreqSent, AttrDREQ, Disconnected},
		"activeUp close":   {dreqSent, AttrDREQ, 0},

		"passiveUp REJ":   {timewait, 0, Disconnected},
		"passiveUp DREQ":  {timewait, AttrDREP, Disconnected},
		"passiveUp stale": {dreqSent, AttrDREQ, Disconnected},
		"passiveUp close": {dreqSent, AttrDREQ, 0},

		"dreqSent REJ":     {timewait, 0, 0},
		"dreqSent DREQ":    {timewait, AttrDREP, 0},
		"dreqSent DREP":    {timewait, 0, 0},
		"dreqSent timer":   {dreqSent, AttrDREQ, 0},
		"dreqSent expired": {timewait, 0, 0},

		"rejected REQ":     {rejected, AttrREJ, 0},
		"rejected expired": {gone, 0, 0},

		"timewait REQ":     {timewait, AttrREJ, 0},
		"timewait DREQ":    {timewait, AttrDREP, 0},
		"timewait expired": {gone, 0, 0},
	}
	seen := 0
	for s := reqSent; s < states; s++ {
		for in := range inputs {
			name := fmt.Sprint(s, " ", in)
			r := newRig(t)
			h, id := r.reach(s)
			c := h.m.conns[id]
			if c == nil || c.state != s {
				t.Fatalf("%v was not reached", s)
			}
			h.m.Take()
			h.m.step(c, r.happening(h, c, in))
			w, ok := want[name]
			if !ok {
				w = outcome{to: s}
			} else {
				seen++
			}
			events, out := h.m.Take()
			if got := r.state(h, id); got != w.to {
				t.Errorf("%s: state %v, want %v", name, got, w.to)
			}
			var sent Attr
			if len(out) > 0 {
				hd, err := ParseHeader(out[0].MAD)
				if err != nil || len(out) > 1 {
					t.Errorf("%s: %d datagrams, %v", name, len(out), err)
				}
				sent = hd.Attr
			}
			if sent != w.sends {
				t.Errorf("%s: sent %v, want %v", name, sent, w.sends)
			}
			var kind Kind
			if len(events) > 0 {
				kind = events[0].Kind
				if len(events) > 1 || events[0].ID != id || (kind == Failed || kind == Disconnected) != (events[0].Err != nil) {
					t.Errorf("%s: events %+v", name, events)
				}
			}
			if kind != w.event {
				t.Errorf("%s: event %d, want %d", name, kind, w.event)
			}
			// Whatever happened, no state but an established one lasts without end.
			if c.state != gone && c.state != activeUp && c.state != passiveUp && c.deadline.IsZero() {
				t.Errorf("%s: no deadline in state %v", name, c.state)
			}
		}
	}
	if seen != len(want) {
		t.Errorf("%d outcomes were seen, %d are listed", seen, len(want))
	}
}

// reach brings a connection of one host into a state.
func (r *rig) reach(s state) (*host, ID) {
	r.t.Helper()
	switch s {
	case reqSent:
		r.dial()
		return r.a, r.ida
	case reqWait:
		r.request()
		r.a.m.step(r.a.m.conns[r.ida], &happening{input: inMRA, now: r.now, wait: time.Second})
		return r.a, r.ida
	case reqRcvd:
		r.request()
	case repSent:
		r.request()
		r.accept()
	case repWait:
		r.reach(repSent)
		r.b.m.step(r.b.m.conns[r.idb], &happening{input: inMRA, now: r.now, wait: time.Second})
	case activeUp:
		r.establish()
		return r.a, r.ida
	case passiveUp:
		r.establish()
	case dreqSent:
		r.establish()
		r.b.m.Close(r.now, r.idb)
	case rejected:
		r.request()
		if err := r.b.m.Reject(r.now, r.idb, []byte("no")); err != nil {
			r.t.Fatal(err)
		}
	case timewait:
		r.establish()
		r.b.m.Close(r.now, r.idb)
		r.exchange()
	}
	return r.b, r.idb
}

// happening is an input with something sensible in it.
func (r *rig) happening(h *host, c *conn, in input) *happening {
	x := &happening{input: in, now: r.now, tid: 77, wait: time.Second}
	switch in {
	case inREP:
		x.rep = &REP{CommID: 5, QPN: 0x77, CAGUID: 9}
	case inREJ:
		x.rej = &REJ{Reason: ReasonConsumer}
	}
	return x
}

func TestStrings(t *testing.T) {
	for s := range states {
		if s.String() == "" {
			t.Errorf("state %d has no name", uint8(s))
		}
	}
	if inputs.String() != "input 14" {
		t.Error(inputs)
	}
}
