package rpcrdma

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// TestVersionChoice has a link go through every sequence of what can happen to its choice of the version, and holds it to
// what section 8 of the draft says: a message in version 2 settles on that, ERR_VERS only in answer to a call in version
// 2, and nothing unsettles; a link that ends with such a call unanswered is followed by one of version 1.
func TestVersionChoice(t *testing.T) {
	const steps = 4
	events := []string{"call sent", "message in version 2", "ERR_VERS"}
	for n := range 81 { // 3 to the power of steps
		l, _, _ := paperLink(t, try2)
		sent, settled, name := false, uint32(0), ""
		for k := n; len(name) < steps; k /= len(events) {
			name += string(rune('0' + k%len(events)))
			switch k % len(events) {
			case 0:
				l.Sending(l.Terms().Version)
				sent = sent || settled == 0
			case 1:
				l.heard(&wire.Header{XID: 5, Version: Version2})
				if settled == 0 {
					settled = Version2
				}
			case 2:
				e := wire.Error{Header: wire.Header{Version: Version2, Proc: wire.ProcError}, Code: wire.ErrVers, Low: 1, High: 1}
				if l.Agree(e.Header, &e) {
					t.Errorf("%s: an error grants credits", name)
				}
				if settled == 0 && sent {
					settled = Version1
				}
			}
			calls, accepts := l.Terms().Version, l.accepted()
			want, wantAccepts := settled, Versions{Low: settled, High: settled}
			if settled == 0 {
				want, wantAccepts = Version2, AllVersions
			}
			if calls != want || accepts != wantAccepts {
				t.Errorf("%s (events %q): calls in version %d, want %d; messages in %v", name, events, calls, want, accepts)
			}
		}
		l.gaveUp()
		if again := settled == Version2 || settled == 0 && !sent; l.d.tries2() != again {
			t.Errorf("%s (events %q): the next link tries version 2: %v", name, events, !again)
		}
	}
}

func try2(cfg *DialerConfig) { cfg.TryVersion2 = true }

// errVers is ERR_VERS in answer to q.
func (q *peerCall) errVers(low, high uint32) []byte {
	return xdrWords(q.XID, q.Version, 1, uint32(wire.ProcError), uint32(wire.ErrVers), low, high)
}

// fault is an error of version 2 in answer to q.
func (q *peerCall) fault(code wire.ErrCode, f wire.Fault) []byte {
	h := Header{XID: q.XID, Version: Version2, Credits: 16, Proc: wire.ProcError, Err: code, V2: V2{Fault: f}}
	return encodeHeader(&h)
}

// props sends a message about properties.
func (p *peer) props(xid uint32, proc wire.Proc, v V2) error {
	h := Header{XID: xid, Version: Version2, Credits: 16, Proc: proc, V2: v}
	return p.send(encodeHeader(&h))
}

// control answers calls until a message of procedure proc comes.
func (p *peer) control(proc wire.Proc) (*peerCall, error) {
	for {
		q, err := p.call()
		if err != nil || q.Version == Version2 && q.Proc == proc {
			return q, err
		}
		if q.Proc != wire.ProcMsg {
			return nil, fmt.Errorf("procedure %d, want %d", q.Proc, proc)
		}
		if err := p.send(q.inline(1)); err != nil {
			return nil, err
		}
	}
}

// TestFallsBack has a server of version 1 refuse the first call of version 2:
// the same call comes again in version 1, on the same connection, and the next
// link begins in it (the draft, section 8.2).
func TestFallsBack(t *testing.T) {
	calls := make(chan peerCall, 16)
	addr := startPeer(t, peerSizes(4096), func(p *peer) error {
		for {
			q, err := p.call()
			if err != nil {
				return err
			}
			calls <- *q
			b := q.inline(7)
			if q.Version != Version1 {
				b = q.errVers(1, 1)
			}
			if err := p.send(b); err != nil {
				return err
			}
		}
	})
	r := dialPeer(t, addr, try2)
	var got uint32
	if err := r.do(within(t, patience), pingCall(&got)); err != nil || got != 7 {
		t.Fatalf("got %d, %v", got, err)
	}
	first, second := <-calls, <-calls
	if first.Version != Version2 || second.Version != Version1 || first.XID != second.XID || string(first.body) != string(second.body) {
		t.Errorf("calls %+v and %+v", first.Header, second.Header)
	}
	if terms := r.d.Stats().Terms; terms != (transport.Terms{Version: 1, InlineSend: 4096, InlineRecv: 4096}) {
		t.Errorf("terms %+v", terms)
	}
	// The grant of ERR_VERS was of one credit, and does not count.
	if n := r.Credits().Current(); n != 16 {
		t.Errorf("%d credits", n)
	}
	l, err := r.d.Dial(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Exchange(within(t, patience), 9, pingCall(nil)); err != nil {
		t.Fatal(err)
	}
	if q := <-calls; q.Version != Version1 {
		t.Errorf("second link begins in version %d", q.Version)
	}
}

// TestFallsBackAfterLoss has a server hang up on the first call of version 2,
// with and without an answer: the next link begins in version 1.
func TestFallsBackAfterLoss(t *testing.T) {
	for name, answer := range map[string]bool{"answered": true, "not answered": false} {
		t.Run(name, func(t *testing.T) {
			versions := make(chan uint32, 16)
			addr := startPeer(t, nil, func(p *peer) error {
				for {
					q, err := p.call()
					if err != nil {
						return err
					}
					versions <- q.Version
					switch {
					case q.Version == Version1:
						err = p.send(q.inline(7))
					case answer:
						err = errors.Join(p.send(q.errVers(1, 1)), p.conn.Close())
					default:
						err = p.conn.Close()
					}
					if err != nil {
						return errHungUp
					}
				}
			})
			r := dialPeer(t, addr, try2)
			// With an answer, the call may have got out a second time.
			if err := r.do(within(t, patience), pingCall(nil)); err == nil {
				t.Fatal("call on a lost connection answered")
			}
			<-r.quiet
			l, err := r.d.Dial(within(t, patience))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if err := l.Exchange(within(t, patience), 9, pingCall(nil)); err != nil {
				t.Fatal(err)
			}
			var last uint32
			for len(versions) > 0 {
				last = <-versions
			}
			if last != Version1 {
				t.Errorf("second link speaks version %d", last)
			}
		})
	}
}

// TestFirstMessageIsShort makes sure that even a server of version 1 can
// receive the first message, and that the default size holds after it.
func TestFirstMessageIsShort(t *testing.T) {
	calls := make(chan peerCall, 4)
	addr := startPeer(t, peerSizes(64<<10), func(p *peer) error {
		for i := 0; ; i++ {
			q, err := p.call()
			if err != nil {
				return err
			}
			if q.Proc == wire.ProcConnProp {
				continue
			}
			calls <- *q
			if err := p.send(q.inline(7)); err != nil {
				return err
			}
		}
	})
	r := dialPeer(t, addr, func(cfg *DialerConfig) {
		cfg.TryVersion2, cfg.InlineSend, cfg.InlineRecv = true, 64<<10, 64<<10
	})
	long := pingCall(nil)
	long.Args, long.ReplyMax = longArgs(500), 5000
	for i, want := range []wire.Proc{wire.ProcNoMsg, wire.ProcMsg} {
		// A reply of more than 4096 bytes needs a chunk, as long as the peer has
		// not shown that it takes properties.
		if err := r.do(within(t, patience), long); err != nil {
			t.Fatal(err)
		}
		if q := <-calls; q.Proc != want || q.Version != Version2 || q.Lists.Reply == nil {
			t.Errorf("call %d: %+v", i, q.Header)
		}
	}
	terms := r.d.Stats().Terms
	if terms.Version != 2 || terms.InlineSend != 4096 || terms.InlineRecv != 4096 || terms.PeerReceiveSize != 4096 {
		t.Errorf("terms %+v", terms)
	}
}

// TestVersionsRefused has answers to the first call that settle nothing.
func TestVersionsRefused(t *testing.T) {
	for name, answer := range map[string]func(q *peerCall) []byte{
		"versions that we do not have": func(q *peerCall) []byte { return q.errVers(3, 9) },
		"a reply in version 1": func(q *peerCall) []byte {
			q.Version = Version1
			return q.inline(7)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := dialPeer(t, startPeer(t, nil, answersFirst(answer)), try2)
			wantFate(t, r.do(within(t, patience), pingCall(nil)), transport.Answered, transport.ErrProtocol)
			if err := r.do(within(t, patience), pingCall(nil)); err != nil {
				t.Errorf("next call: %v", err)
			}
			if v := r.d.Stats().Terms.Version; v != 2 {
				t.Errorf("version %d", v)
			}
		})
	}
}

// TestReplyOfOtherVersion has a settled link get replies of the other version.
func TestReplyOfOtherVersion(t *testing.T) {
	for _, try := range []bool{false, true} {
		addr := startPeer(t, nil, func(p *peer) error {
			for i := 0; ; i++ {
				q, err := p.call()
				if err != nil {
					return err
				}
				if q.Proc == wire.ProcConnProp {
					i--
					continue
				}
				if i == 1 {
					q.Version ^= Version1 ^ Version2
				}
				if err := p.send(q.inline(7)); err != nil {
					return err
				}
			}
		})
		r := dialPeer(t, addr, func(cfg *DialerConfig) { cfg.TryVersion2 = try })
		if err := r.do(within(t, patience), pingCall(nil)); err != nil {
			t.Fatal(err)
		}
		wantFate(t, r.do(within(t, patience), pingCall(nil)), transport.Answered, transport.ErrProtocol)
		if err := r.do(within(t, patience), pingCall(nil)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnknownErrorEndsCall: an error that is not known is no message that can be
// read, but its call has been refused, and does not wait for more.
func TestUnknownErrorEndsCall(t *testing.T) {
	calls := 0
	r := dialPeer(t, startPeer(t, nil, func(p *peer) error {
		for {
			q, err := p.call()
			if err != nil {
				return err
			}
			if q.Proc == wire.ProcConnProp {
				continue
			}
			b := q.inline(5)
			if calls++; calls == 2 {
				b = xdrWords(q.XID, Version2, 16, uint32(wire.ProcError), 11)
			}
			if err := p.send(b); err != nil {
				return err
			}
		}
	}), try2)
	if err := r.do(within(t, patience), pingCall(nil)); err != nil {
		t.Fatal(err)
	}
	wantFate(t, r.do(within(t, patience), pingCall(nil)), transport.Answered, transport.ErrProtocol)
	wantAlive(t, r)
}

// TestNamesKeyToInvalidate makes sure that a call names one key of its own for
// the responder to invalidate, and that none is invalidated twice.
func TestNamesKeyToInvalidate(t *testing.T) {
	calls := make(chan Header, 8)
	addr := startPeer(t, nil, func(p *peer) error {
		for {
			q, err := p.call()
			if err != nil {
				return err
			}
			if q.Proc == wire.ProcConnProp {
				continue
			}
			calls <- q.Header
			if len(q.Lists.Write) > 0 {
				back, err := p.write(q.Lists.Write[0], make([]byte, 5001))
				if err != nil {
					return err
				}
				b := append(q.header(wire.ProcMsg, 16, wire.Lists{Write: []wire.Chunk{back}}), rpcAccepted(q.XID, 5001)...)
				if err := p.sendInvalidate(b, q.InvHandle); err != nil {
					return err
				}
			} else if err := p.send(q.inline(1)); err != nil {
				return err
			}
		}
	})
	r := dialPeer(t, addr, try2)
	if err := r.do(within(t, patience), pingCall(nil)); err != nil {
		t.Fatal(err)
	}
	if q := <-calls; q.InvHandle != 0 {
		t.Errorf("inline call names key %#x", q.InvHandle)
	}
	var n int
	if err := r.do(within(t, patience), readCall(mem.Vec{r.arena.Seg(0, 5001)}, &n)); err != nil || n != 5001 {
		t.Fatalf("%d bytes, %v", n, err)
	}
	q := <-calls
	if len(q.Lists.Write) != 1 || len(q.Lists.Write[0]) != 2 || !slices.Contains(q.Lists.Keys(nil), q.InvHandle) || q.InvHandle == 0 {
		t.Errorf("call %+v", q)
	}
	// The chunk's other key, for the padding, is left to us.
	if s := r.d.Stats(); s.RemoteInvalidations != 1 || s.LocalInvalidations != 1 {
		t.Errorf("%d keys invalidated remotely, %d here", s.RemoteInvalidations, s.LocalInvalidations)
	}
}
