package rpcsecgss_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// wire is a Dialer and its only Link: calls go to a server in the same goroutine, and what
// travels is shown to tests, which may change it.
type wire struct {
	transport.Dialer // nil: only Dial is called
	h                transport.Handler
	// call and reply change a message, or return nil: it is lost, and with it the
	// connection.
	call, reply func(c *transport.Call, msg []byte) []byte
	done        chan struct{}
}

var errLost = errors.New("lost")

func (w *wire) Dial(context.Context) (transport.Link, error) { return w, nil }
func (w *wire) Done() <-chan struct{}                        { return w.done }
func (w *wire) Err() error                                   { return nil }
func (w *wire) Close() error                                 { return nil }

func (w *wire) ExchangeOverdue(ctx context.Context, xid uint32, c *transport.Call) error {
	return w.Exchange(ctx, xid, c)
}

func (w *wire) Exchange(_ context.Context, xid uint32, c *transport.Call) error {
	var out xdr.Writer
	oncrpc.AppendCall(&out, xid, c)
	if c.Sent != nil {
		c.Sent()
	}
	msg := bytes.Clone(out.Bytes())
	if w.call != nil {
		msg = w.call(c, msg)
	}
	reply, ok := w.serve(msg)
	if ok && w.reply != nil {
		reply = w.reply(c, reply)
	}
	if !ok || reply == nil {
		return &transport.Error{Fate: transport.Unknown, Err: errLost}
	}
	var r xdr.Reader
	r.Reset(reply, nil)
	return oncrpc.DecodeReply(&r, xid, c)
}

// serve has the server answer a message.
func (w *wire) serve(msg []byte) ([]byte, bool) {
	q := &transport.Request{Args: new(xdr.Reader), Reply: new(xdr.Writer)}
	q.Args.Reset(msg, nil)
	ok := oncrpc.Serve(context.Background(), w.h, q)
	return bytes.Clone(q.Reply.Bytes()), ok
}

// wired is a client over a wire. ran counts the calls that the server has carried out.
type wired struct {
	*wire
	dialer *rpcsecgss.Dialer
	link   transport.Link
	ran    int
	xid    uint32
	// before, if set, is called before a call is carried out.
	before func(*transport.Request)
	// initiators is how many were made.
	initiators int
}

func newWired(t testing.TB, service rpcsecgss.Service) *wired {
	t.Helper()
	return newWiredAt(t, service, nil)
}

// newWiredAt is newWired with another clock.
func newWiredAt(t testing.TB, service rpcsecgss.Service, now func() time.Time) *wired {
	t.Helper()
	w := &wired{wire: &wire{done: make(chan struct{})}}
	m := newMech()
	w.h = rpcsecgss.NewServer(handlerFunc(func(ctx context.Context, q *transport.Request) transport.AcceptStat {
		if q.Proc != 0 {
			w.ran++
		}
		if w.before != nil {
			w.before(q)
		}
		return echo(ctx, q)
	}), rpcsecgss.ServerConfig{Acceptor: m, Flavors: [4]uint32{0, 390003, 390004, 390005}})
	d := rpcsecgss.NewDialer(w.wire, rpcsecgss.Config{Service: service, Now: now, Initiator: func(uid uint32) rpcsecgss.Initiator {
		w.initiators++
		return mechUser{m, uid}
	}})
	w.dialer = d
	var err error
	if w.link, err = d.Dial(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, uid := range []uint32{1, 2} {
		if err := w.ask(uid, service); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// ask makes a call of a user.
func (w *wired) ask(uid uint32, service rpcsecgss.Service) error {
	w.xid++
	return w.link.Exchange(context.Background(), w.xid, echoCall(uid, "some text", service))
}

// carriesOut reports whether a call is one that is made under a context to be carried out.
func carriesOut(c *transport.Call) bool { return c.Proc != 0 }

// TestChangedCall flips each bit of a call: the server does not carry it out, but for what
// krb5 does not protect, the arguments.
func TestChangedCall(t *testing.T) {
	for _, service := range services {
		t.Run(service.String(), func(t *testing.T) {
			w := newWired(t, service)
			bits, header := 0, 0
			w.call = func(c *transport.Call, msg []byte) []byte {
				bits, header = 8*len(msg), 8*(len(msg)-16) // the arguments are 16 bytes
				return msg
			}
			if err := w.ask(1, service); err != nil {
				t.Fatal(err)
			}
			if service == rpcsecgss.None {
				bits = header
			}
			if header < 8*100 {
				t.Fatalf("a header of %d bits", header)
			}
			for bit := range bits {
				changed := false
				w.ran = 0
				w.call = func(c *transport.Call, msg []byte) []byte {
					if changed || !carriesOut(c) {
						if w.ran > 0 {
							t.Fatalf("bit %d: the changed call was carried out", bit)
						}
						return msg
					}
					changed = true
					msg[bit/8] ^= 1 << (bit % 8)
					return msg
				}
				err := w.ask(1, service)
				if err != nil && w.ran > 0 {
					t.Fatalf("bit %d: the changed call was carried out: %v", bit, err)
				}
				if err == nil && w.ran != 1 {
					t.Fatalf("bit %d: carried out %d times", bit, w.ran)
				}
			}
		})
	}
}

// TestChangedReply flips each bit of a reply, and cuts it at each length: the client never
// takes it for the server's, but for the results of krb5.
func TestChangedReply(t *testing.T) {
	for _, service := range services {
		t.Run(service.String(), func(t *testing.T) {
			w := newWired(t, service)
			var length int
			w.reply = func(_ *transport.Call, msg []byte) []byte { length = len(msg); return msg }
			if err := w.ask(1, service); err != nil {
				t.Fatal(err)
			}
			if service == rpcsecgss.None {
				length -= 16 + 8 + 4 // the results
			}
			try := func(what string, change func(msg []byte) []byte) {
				t.Helper()
				seen := false
				w.reply = func(c *transport.Call, msg []byte) []byte {
					if seen || !carriesOut(c) {
						return msg
					}
					seen = true
					return change(msg)
				}
				w.ran = 0
				// A denial may be forged: the call is then made again under a new context.
				if err := w.ask(1, service); err == nil && w.ran < 2 {
					t.Errorf("%s: taken", what)
				}
			}
			for bit := range 8 * length {
				try(fmt.Sprintf("bit %d flipped", bit), func(msg []byte) []byte { msg[bit/8] ^= 1 << (bit % 8); return msg })
			}
			for n := range length {
				try(fmt.Sprintf("cut to %d bytes", n), func(msg []byte) []byte { return msg[:n:n] })
			}
		})
	}
}

// TestForeignReplies gives a call replies that the server has made for others.
func TestForeignReplies(t *testing.T) {
	for _, service := range services {
		t.Run(service.String(), func(t *testing.T) {
			w := newWired(t, service)
			replies := map[uint32][]byte{}
			for _, uid := range []uint32{1, 2} {
				w.reply = func(_ *transport.Call, msg []byte) []byte { replies[uid] = msg; return msg }
				if err := w.ask(uid, service); err != nil {
					t.Fatal(err)
				}
			}
			for uid, foreign := range replies {
				w.reply = func(_ *transport.Call, own []byte) []byte {
					return append(bytes.Clone(own[:4]), foreign[4:]...) // under the XID of this call
				}
				if err := w.ask(1, service); !errors.Is(err, transport.ErrProtocol) || !errors.Is(err, rpcsecgss.ErrVerifier) {
					t.Errorf("the reply to an earlier call of user %d: %v", uid, err)
				}
			}
			if service == rpcsecgss.None {
				return
			}
			// The verifier of this reply, and the results of another.
			const head = 4 + 4 + 4 + 4 + 4 + 28 + 4
			w.reply = func(_ *transport.Call, own []byte) []byte {
				return append(bytes.Clone(own[:head]), replies[1][head:]...)
			}
			if err := w.ask(1, service); !errors.Is(err, rpcsecgss.ErrVerifier) {
				t.Errorf("the results of another call: %v", err)
			}
			// A reply without a verifier, or with AUTH_SYS' empty one.
			w.reply = func(_ *transport.Call, own []byte) []byte {
				return append(append(bytes.Clone(own[:12]), make([]byte, 8)...), own[head-4:]...)
			}
			if err := w.ask(1, service); !errors.Is(err, rpcsecgss.ErrVerifier) {
				t.Errorf("a reply that is not authenticated: %v", err)
			}
			w.reply = nil
			if err := w.ask(1, service); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TestReplayedCall: the same call once more is not carried out, and not answered.
func TestReplayedCall(t *testing.T) {
	for _, service := range services {
		w := newWired(t, service)
		var sent []byte
		w.call = func(_ *transport.Call, msg []byte) []byte { sent = bytes.Clone(msg); return msg }
		if err := w.ask(1, service); err != nil {
			t.Fatal(err)
		}
		ran := w.ran
		if _, answered := w.serve(sent); answered || w.ran != ran {
			t.Errorf("%v: a replayed call: answered %v, carried out %d times", service, answered, w.ran-ran)
		}
	}
}

// TestLostReplies: a link whose replies are lost gives numbers out all the same, and the
// calls after that are answered.
func TestLostReplies(t *testing.T) {
	w := newWired(t, rpcsecgss.Integrity)
	for range 300 {
		w.reply = func(*transport.Call, []byte) []byte { return nil }
		if err := w.ask(1, rpcsecgss.Integrity); !errors.Is(err, errLost) {
			t.Fatal(err)
		}
		w.reply = nil
		if err := w.ask(1, rpcsecgss.Integrity); err != nil {
			t.Fatal(err)
		}
	}
}

// TestInitAnswers flips each bit of the answer to an initiation, and gives other answers:
// there is a context only if it is the acceptor's.
func TestInitAnswers(t *testing.T) {
	w := newWired(t, rpcsecgss.Privacy)
	var length int
	w.reply = func(c *transport.Call, msg []byte) []byte {
		if !carriesOut(c) {
			length = len(msg)
		}
		return msg
	}
	if err := w.ask(3, rpcsecgss.Privacy); err != nil || length == 0 {
		t.Fatal(err, length)
	}
	uid := uint32(10)
	try := func(what string, change func(msg []byte) []byte) {
		t.Helper()
		uid++
		w.ran = 0
		w.reply = func(c *transport.Call, msg []byte) []byte {
			if carriesOut(c) {
				return msg
			}
			return change(msg)
		}
		if err := w.ask(uid, rpcsecgss.Privacy); err == nil || w.ran > 0 {
			t.Errorf("%s: %v, %d calls carried out", what, err, w.ran)
		}
	}
	handle := 4*6 + 28 + 4 // behind the reply's head: the handle, which nothing protects
	for bit := range 8 * length {
		if at := bit / 8; at >= handle && at < handle+16 || at >= handle+20 && at < handle+24 {
			continue // the handle and the minor status: the server knows no such context, or nothing follows from it
		}
		try(fmt.Sprintf("bit %d flipped", bit), func(msg []byte) []byte { msg[bit/8] ^= 1 << (bit % 8); return msg })
	}
	for n := range length {
		try(fmt.Sprintf("cut to %d bytes", n), func(msg []byte) []byte { return msg[:n:n] })
	}
}

// FuzzInitResult: no answer panics.
func FuzzInitResult(f *testing.F) {
	var w xdr.Writer
	res := rpcsecgss.InitResult{Handle: []byte("handle"), Window: 128, Token: []byte("token")}
	res.Append(&w)
	f.Add(w.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		var r xdr.Reader
		r.Reset(b, nil)
		if got, err := rpcsecgss.ParseInitResult(&r); err == nil {
			var w xdr.Writer
			got.Append(&w)
			if !bytes.Equal(w.Bytes(), b) {
				t.Errorf("%x encoded again as %x", b, w.Bytes())
			}
		}
	})
}

// TestDiscardedReplies: a reply that is not authentic is discarded, and the call sent again, as one that may have been carried
// out; twice at most. The authentic reply to an earlier transmission is taken.
func TestDiscardedReplies(t *testing.T) {
	for _, service := range services {
		t.Run(service.String(), func(t *testing.T) {
			const head = 4 + 4 + 4 + 4 + 4 // up to the verifier
			for wrong := range 4 {
				w := newWired(t, service)
				sent := 0
				w.reply = func(c *transport.Call, msg []byte) []byte {
					if c.Resent != (sent > 0) {
						t.Errorf("transmission %d says of itself to be another one: %v", sent, c.Resent)
					}
					if sent++; sent <= wrong {
						msg[head] ^= 1
					}
					return msg
				}
				w.ran = 0
				err := w.ask(1, service)
				if want := min(wrong+1, 3); sent != want || w.ran != want {
					t.Errorf("%d wrong replies: sent %d times, carried out %d times, want %d", wrong, sent, w.ran, want)
				}
				if wrong < 3 && err != nil || wrong == 3 && !errors.Is(err, rpcsecgss.ErrVerifier) {
					t.Errorf("%d wrong replies: %v", wrong, err)
				}
			}
			w := newWired(t, service)
			var first []byte
			w.reply = func(_ *transport.Call, msg []byte) []byte {
				if first != nil {
					return first
				}
				first = bytes.Clone(msg)
				msg[head] ^= 1
				return msg
			}
			if err := w.ask(1, service); err != nil {
				t.Errorf("the reply to the first transmission: %v", err)
			}
		})
	}
}

// FuzzBody puts whatever it likes where the results of krb5i and krb5p stand, behind a header and a verifier that are authentic: the
// call fails as one whose reply is not authentic.
func FuzzBody(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 5, 0xff})
	f.Add(append([]byte{0, 0, 0, 76, 5, 4, 7, 0xff, 0, 16, 0xff, 0xff}, make([]byte, 72)...))
	f.Add(append([]byte{0, 0, 0, 60, 5, 4, 7, 0xff}, make([]byte, 56)...))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, service := range []rpcsecgss.Service{rpcsecgss.Integrity, rpcsecgss.Privacy} {
			w := newWired(t, service)
			w.reply = func(_ *transport.Call, msg []byte) []byte {
				at := 24 + int(binary.BigEndian.Uint32(msg[16:])) // of the results, behind xid, type, stat, verifier and accept_stat
				return append(msg[:at:at], body...)
			}
			if err := w.ask(1, service); !errors.Is(err, rpcsecgss.ErrVerifier) {
				t.Errorf("%v: %v", service, err)
			}
		}
	})
}
