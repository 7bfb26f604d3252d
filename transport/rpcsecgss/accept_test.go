package rpcsecgss_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// direct hands messages to a server without a transport.
type direct struct {
	testing.TB
	mech   *plainMech
	server *rpcsecgss.Server
	served int
}

func newDirect(t testing.TB, max int, flavors [4]uint32) *direct {
	d := &direct{TB: t, mech: newMech()}
	d.server = rpcsecgss.NewServer(handlerFunc(func(ctx context.Context, q *transport.Request) transport.AcceptStat {
		d.served++
		return echo(ctx, q)
	}), rpcsecgss.ServerConfig{Acceptor: d.mech, Flavors: flavors, MaxContexts: max})
	return d
}

var allServices = [4]uint32{0, 390003, 390004, 390005}

func (d *direct) send(msg []byte) (reply []byte, ok bool) {
	q := &transport.Request{Args: new(xdr.Reader), Reply: new(xdr.Writer), Peer: "192.0.2.1:700"}
	q.Args.Reset(msg, nil)
	ok = oncrpc.Serve(context.Background(), d.server, q)
	return q.Reply.Bytes(), ok
}

// header is a call up to the end of a credential with that body.
func header(proc uint32, cred []byte) *xdr.Writer {
	w := new(xdr.Writer)
	for _, v := range []uint32{7, 0, 2, 400123, 1, proc, 6} {
		w.Uint32(v)
	}
	w.Opaque(cred)
	return w
}

// body is what Credential encodes behind the flavor and the length.
func body(c rpcsecgss.Credential) []byte {
	var w xdr.Writer
	c.Append(&w)
	return w.Bytes()[8:]
}

// initCall is a call that makes a context for a user.
func (d *direct) initCall(uid uint32) (msg, token []byte) {
	token, _, err := mechUser{d.mech, uid}.Start(d.Context())
	if err != nil {
		d.Fatal(err)
	}
	w := header(0, body(rpcsecgss.Credential{Proc: rpcsecgss.ProcInit, Service: rpcsecgss.None}))
	w.Uint32(0)
	w.Uint32(0)
	w.Opaque(token)
	return w.Bytes(), token
}

// peer is the client's end of a context.
type peer struct {
	handle []byte
	tokens rpcsecgss.Tokens
}

func (d *direct) create(uid uint32) peer {
	d.Helper()
	msg, token := d.initCall(uid)
	reply, ok := d.send(msg)
	var r xdr.Reader
	r.Reset(reply, nil)
	r.Fixed(16)
	verf := r.Opaque(400)
	stat := r.Uint32()
	res, err := rpcsecgss.ParseInitResult(&r)
	tokens := d.mech.tokens(token, true)
	if !ok || stat != 0 || err != nil || res.Major != rpcsecgss.Complete || res.Window != 128 ||
		tokens.VerifyMIC(binary.BigEndian.AppendUint32(nil, res.Window), verf) != nil {
		d.Fatalf("creation: %x, %+v, %v", reply, res, err)
	}
	return peer{res.Handle, tokens}
}

// call is a call with service none in p's context.
func (p peer) call(proc uint32, c rpcsecgss.Credential) []byte {
	c.Handle = p.handle
	w := header(proc, body(c))
	mic := p.tokens.AppendMIC(nil, w.Bytes())
	w.Uint32(6)
	w.Opaque(mic)
	return w.Bytes()
}

func data(seq uint32) rpcsecgss.Credential {
	return rpcsecgss.Credential{Seq: seq, Service: rpcsecgss.None}
}

// denial is the auth_stat of a reply, or 0.
func denial(reply []byte) uint32 {
	if len(reply) == 20 && bytes.Equal(reply[4:16], []byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1}) {
		return binary.BigEndian.Uint32(reply[16:])
	}
	return 0
}

func TestServerRefuses(t *testing.T) {
	d := newDirect(t, 0, [4]uint32{0, 390003, 0, 390005})
	p := d.create(1)
	good := body(rpcsecgss.Credential{Seq: 1, Service: rpcsecgss.None, Handle: p.handle})
	changed := func(word int, v uint32) []byte {
		b := bytes.Clone(good)
		binary.BigEndian.PutUint32(b[4*word:], v)
		return b
	}
	signed := func(proc uint32, cred []byte) []byte {
		w := header(proc, cred)
		mic := p.tokens.AppendMIC(nil, w.Bytes())
		w.Uint32(6)
		w.Opaque(mic)
		return w.Bytes()
	}
	unsigned := func(proc uint32, cred []byte) []byte {
		w := header(proc, cred)
		w.Uint32(0)
		w.Uint32(0)
		w.Opaque(make([]byte, keyLen+12))
		return w.Bytes()
	}
	init := func(proc rpcsecgss.Proc, handle []byte) []byte {
		return body(rpcsecgss.Credential{Proc: proc, Service: rpcsecgss.None, Handle: handle})
	}
	for name, tc := range map[string]struct {
		msg  []byte
		want uint32
	}{
		"version":            {signed(1, changed(0, 2)), 1},
		"procedure":          {signed(1, changed(1, 4)), 1},
		"no service":         {signed(1, changed(3, 0)), 1},
		"service":            {signed(1, changed(3, 4)), 1},
		"handle too long":    {signed(1, changed(4, 0xffffffff)), 1},
		"trailing bytes":     {signed(1, append(bytes.Clone(good), 0, 0, 0, 0)), 1},
		"MAXSEQ":             {signed(1, changed(2, rpcsecgss.MaxSeq)), rpcsecgss.ContextProblem},
		"unknown handle":     {signed(1, changed(5, 1)), rpcsecgss.CredProblem},
		"short handle":       {signed(1, body(rpcsecgss.Credential{Seq: 1, Service: rpcsecgss.None, Handle: p.handle[:8]})), rpcsecgss.CredProblem},
		"no verifier":        {unsigned(1, good), 3},
		"another's":          {peer{p.handle, d.create(2).tokens}.call(1, data(1)), rpcsecgss.CredProblem},
		"service not served": {signed(1, changed(3, uint32(rpcsecgss.Integrity))), 5},
		"destroying NFS":     {signed(1, changed(1, uint32(rpcsecgss.ProcDestroy))), 1},
		"creating NFS":       {unsigned(1, init(rpcsecgss.ProcInit, nil)), 1},
		"creating again":     {unsigned(0, init(rpcsecgss.ProcInit, p.handle)), 1},
		"creating, signed":   {signed(0, init(rpcsecgss.ProcInit, nil)), 3},
		"continuing":         {unsigned(0, init(rpcsecgss.ProcContinueInit, p.handle)), rpcsecgss.CredProblem},
	} {
		reply, ok := d.send(tc.msg)
		if got := denial(reply); !ok || got != tc.want {
			t.Errorf("%s: %v, auth_stat %d (%x), want %d", name, ok, got, reply, tc.want)
		}
	}
	forged := p.call(1, data(1))
	forged[len(forged)-1] ^= 1
	if reply, _ := d.send(forged); denial(reply) != rpcsecgss.CredProblem {
		t.Errorf("forged verifier: %x", reply)
	}
	if d.served != 0 {
		t.Errorf("%d of them were served", d.served)
	}
	// None of those has used the number up.
	if _, ok := d.send(p.call(0, data(1))); !ok || d.served != 1 {
		t.Errorf("the good call: %v, served %d", ok, d.served)
	}
	if reply, ok := d.send(p.call(0, data(1))); ok || len(reply) != 0 || d.served != 1 {
		t.Errorf("the same again: %v, %x", ok, reply)
	}
	whole := p.call(0, data(2))
	for n := range whole {
		if reply, ok := d.send(whole[:n]); ok && denial(reply) == 0 || d.served != 1 {
			t.Fatalf("cut to %d of %d bytes: %x", n, len(whole), reply)
		}
	}
}

// TestCreationFails: what the mechanism refuses is answered, and malformed arguments are.
func TestCreationFails(t *testing.T) {
	d := newDirect(t, 0, allServices)
	d.mech.refuse = errors.New("who are you?")
	msg, _ := d.initCall(1)
	reply, ok := d.send(msg)
	var r xdr.Reader
	r.Reset(reply, nil)
	r.Fixed(24) // an accepted reply without a verifier
	res, err := rpcsecgss.ParseInitResult(&r)
	if !ok || err != nil || res.Major != 0xd0000 || len(res.Handle) != 0 || !bytes.Equal(reply[12:24], make([]byte, 12)) {
		t.Errorf("%v: %x, %+v, %v", ok, reply, res, err)
	}
	for _, bad := range [][]byte{msg[:len(msg)-4], append(bytes.Clone(msg), 0, 0, 0, 0)} {
		if reply, ok := d.send(bad); !ok || binary.BigEndian.Uint32(reply[20:]) != uint32(transport.GarbageArgs) {
			t.Errorf("malformed: %v, %x", ok, reply)
		}
	}
	if d.server.Contexts() != 0 {
		t.Errorf("%d contexts", d.server.Contexts())
	}
}

// TestContextsAreBounded: the context not used for longest gives way, one that never was
// used first, so that recorded tokens sent again and again push no user out.
func TestContextsAreBounded(t *testing.T) {
	d := newDirect(t, 3, allServices)
	used := [2]peer{d.create(1), d.create(2)}
	for i, p := range used {
		if _, ok := d.send(p.call(0, data(1))); !ok {
			t.Fatal(i)
		}
	}
	recorded, _ := d.initCall(3)
	for range 100 {
		if _, ok := d.send(recorded); !ok {
			t.Fatal("creation")
		}
	}
	for i, p := range used {
		if reply, ok := d.send(p.call(0, data(2))); !ok || denial(reply) != 0 {
			t.Errorf("user %d was pushed out: %x", i+1, reply)
		}
	}
	if d.server.Contexts() != 3 {
		t.Errorf("%d contexts", d.server.Contexts())
	}
	// Once all are used, the first to have been goes.
	third := d.create(3)
	d.send(third.call(0, data(1)))
	d.send(used[0].call(0, data(3)))
	fourth := d.create(4)
	for i, want := range map[int]uint32{0: 0, 1: rpcsecgss.CredProblem, 2: 0, 3: 0} {
		p := [...]peer{used[0], used[1], third, fourth}[i]
		if reply, _ := d.send(p.call(0, data(9))); denial(reply) != want {
			t.Errorf("context %d: auth_stat %d, want %d", i+1, denial(reply), want)
		}
	}
}

// TestExpiry: a context ends with its ticket, and makes room.
func TestExpiry(t *testing.T) {
	d := newDirect(t, 1, allServices)
	d.mech.life = -time.Second
	p := d.create(1)
	if reply, _ := d.send(p.call(0, data(1))); denial(reply) != rpcsecgss.ContextProblem || d.server.Contexts() != 0 {
		t.Errorf("%x, %d contexts", reply, d.server.Contexts())
	}
	if reply, _ := d.send(p.call(0, data(2))); denial(reply) != rpcsecgss.CredProblem {
		t.Errorf("once more: %x", reply)
	}
}

func TestDestroyedWhateverItsArguments(t *testing.T) {
	d := newDirect(t, 0, allServices)
	for _, args := range [][]byte{nil, {0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0}} {
		p := d.create(1)
		reply, ok := d.send(append(p.call(0, rpcsecgss.Credential{Proc: rpcsecgss.ProcDestroy, Seq: 1, Service: rpcsecgss.Integrity}), args...))
		if !ok || denial(reply) != 0 || d.server.Contexts() != 0 || d.served != 0 {
			t.Errorf("%v: %x, %d contexts", ok, reply, d.server.Contexts())
		}
	}
}

// FuzzCredential: what is decoded encodes to itself.
func FuzzCredential(f *testing.F) {
	f.Add(body(data(1)))
	f.Add(body(rpcsecgss.Credential{Proc: rpcsecgss.ProcInit, Service: rpcsecgss.Privacy}))
	f.Add(body(rpcsecgss.Credential{Seq: 1 << 30, Service: rpcsecgss.Integrity, Handle: []byte("sixteen bytes...")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := rpcsecgss.ParseCredential(b)
		if err != nil {
			return
		}
		again := body(c)
		if n := len(c.Handle); !bytes.Equal(again[:20+n], b[:20+n]) || len(again) != len(b) {
			t.Fatalf("%x becomes %x", b, again)
		}
	})
}

// FuzzServer: nothing but a good verifier reaches the handler, and each answer is a reply.
func FuzzServer(f *testing.F) {
	d := newDirect(f, 4, allServices)
	p := d.create(1)
	msg, _ := d.initCall(2)
	f.Add(msg)
	f.Add(p.call(0, data(1)))
	f.Add(p.call(0, rpcsecgss.Credential{Proc: rpcsecgss.ProcDestroy, Seq: 1, Service: rpcsecgss.Integrity}))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := newDirect(t, 4, allServices)
		reply, ok := d.send(b)
		if len(b) >= 28 && binary.BigEndian.Uint32(b[24:]) == transport.FlavorGSS && d.served > 0 {
			t.Fatal("served without a context")
		}
		if ok && (len(reply) < 20 || !bytes.Equal(reply[:4], b[:4]) || binary.BigEndian.Uint32(reply[4:]) != 1) {
			t.Fatalf("%x is answered with %x", b, reply)
		}
	})
}
