package rpcsecgss_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss/krb5"
	"github.com/rdmafs/rdmafs/transport/tcp"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// plainMech is a mechanism without secrets: an initiator's token is a fresh key with the
// user's number, the acceptor's the same bytes inverted. What protects the messages is real.
type plainMech struct {
	mu    sync.Mutex
	start map[uint32]int // contexts begun, by user
	fail  map[uint32]error
	life  time.Duration
	forgot,
	accepted int
	refuse error
	// rekeyed has nothing accepted until an initiator has dropped what it kept.
	rekeyed bool
	// seen, if not nil, has the tokens that were accepted: none is twice.
	seen map[string]bool
}

func newMech() *plainMech {
	return &plainMech{start: map[uint32]int{}, fail: map[uint32]error{}, life: time.Hour}
}

const keyLen = 32

func (m *plainMech) tokens(key []byte, initiator bool) *krb5.Tokens {
	t, err := krb5.NewTokens(krb5.Agreed{Initiator: initiator, Enctype: 18, Key: key[:keyLen], AcceptorSubkey: true,
		End: time.Unix(int64(binary.BigEndian.Uint64(key[keyLen+4:])), 0)})
	if err != nil {
		panic(err)
	}
	return t
}

// Accept implements rpcsecgss.Acceptor.
func (m *plainMech) Accept(token []byte) ([]byte, rpcsecgss.Tokens, rpcsecgss.Principal, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var who rpcsecgss.Principal
	if len(token) != keyLen+12 {
		return nil, nil, who, fmt.Errorf("token of %d bytes", len(token))
	}
	if m.refuse != nil {
		return nil, nil, who, m.refuse
	}
	if m.rekeyed && m.forgot == 0 {
		return nil, nil, who, errors.New("no such key")
	}
	if m.seen[string(token)] {
		return nil, nil, who, errors.New("replay")
	}
	if m.seen != nil {
		m.seen[string(token)] = true
	}
	m.accepted++
	who.Name = fmt.Sprint(binary.BigEndian.Uint32(token[keyLen:]))
	return inverted(token), m.tokens(token, false), who, nil
}

func inverted(b []byte) []byte {
	c := make([]byte, len(b))
	for i := range b {
		c[i] = ^b[i]
	}
	return c
}

// mechUser is one user's initiator.
type mechUser struct {
	m   *plainMech
	uid uint32
}

func (u mechUser) Start(context.Context) ([]byte, func([]byte) (rpcsecgss.Tokens, error), error) {
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	u.m.start[u.uid]++
	if err := u.m.fail[u.uid]; err != nil {
		return nil, nil, err
	}
	token := make([]byte, keyLen)
	rand.Read(token)
	token = binary.BigEndian.AppendUint32(token, u.uid)
	token = binary.BigEndian.AppendUint64(token, uint64(time.Now().Add(u.m.life).Unix()))
	return token, func(reply []byte) (rpcsecgss.Tokens, error) {
		if string(inverted(reply)) != string(token) {
			return nil, errors.New("not the acceptor's token")
		}
		return u.m.tokens(token, true), nil
	}, nil
}

func (u mechUser) Forget() {
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	u.m.forgot++
}

func (m *plainMech) begun(uid uint32) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.start[uid]
}

// set changes the mechanism.
func (m *plainMech) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// handlerFunc serves calls.
type handlerFunc func(ctx context.Context, q *transport.Request) transport.AcceptStat

func (f handlerFunc) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	return f(ctx, q)
}

// rig is a server behind RPCSEC_GSS, and a client of it.
type rig struct {
	*testing.T
	mech   *plainMech
	server *rpcsecgss.Server
	dialer *rpcsecgss.Dialer
	addr   net.Addr
	caller *reconnect.Caller
}

// echo answers with the argument and who has called.
func echo(_ context.Context, q *transport.Request) transport.AcceptStat {
	if q.Proc == 0 {
		return transport.Success
	}
	q.Reply.Opaque(q.Args.Opaque(1 << 20))
	q.Reply.String(q.Principal)
	q.Reply.Uint32(q.Security)
	return transport.Success
}

// rules are of a rig: what lies between client and server, if anything, and the client's
// clock.
type rules struct {
	service  rpcsecgss.Service
	handler  handlerFunc
	nconnect int
	// concurrent bounds the server's calls under way on one connection; 0 means 512.
	concurrent int
	between    func(transport.Dialer) transport.Dialer
	now        func() time.Time
	upgrade    func(ctx context.Context, c net.Conn) (net.Conn, error)
	wrap       func(h transport.Handler) transport.Handler
	soft       time.Duration
	hard       bool
}

func newRig(t *testing.T, r rules) *rig {
	t.Helper()
	g := &rig{T: t, mech: newMech()}
	if r.handler == nil {
		r.handler = echo
	}
	g.server = rpcsecgss.NewServer(r.handler, rpcsecgss.ServerConfig{Acceptor: g.mech, Flavors: [4]uint32{0, 390003, 390004, 390005}})
	var h transport.Handler = g.server
	if r.wrap != nil {
		h = r.wrap(h)
	}
	if r.concurrent == 0 {
		r.concurrent = 512
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.addr = ln.Addr()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- tcp.Serve(ctx, ln, h, tcp.ServerConfig{Concurrent: r.concurrent}) }()
	inner, err := tcp.NewDialer(tcp.Config{Addr: ln.Addr().(*net.TCPAddr).AddrPort(), Upgrade: r.upgrade})
	if err != nil {
		t.Fatal(err)
	}
	var d transport.Dialer = inner
	if r.between != nil {
		d = r.between(d)
	}
	g.dialer = rpcsecgss.NewDialer(d, rpcsecgss.Config{Service: r.service, Now: r.now, Hard: r.hard,
		Initiator: func(uid uint32) rpcsecgss.Initiator { return mechUser{g.mech, uid} }})
	cfg := reconnect.Config{Server: "rig", Timeo: time.Hour, Probe: -1, NConnect: r.nconnect}
	if r.soft > 0 {
		cfg.Soft, cfg.Timeo, cfg.Retrans = true, r.soft, 0
	}
	g.caller = reconnect.New(g.dialer, cfg)
	t.Cleanup(func() {
		_ = g.caller.Close()
		stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return g
}

// echoCall is a call of the user; check compares the answer.
func echoCall(uid uint32, text string, service rpcsecgss.Service) *transport.Call {
	return &transport.Call{Prog: 400123, Vers: 1, Proc: 1, Cred: &transport.AuthSys{UID: uid}, ReplyMax: len(text) + 64,
		Args: func(w *xdr.Writer) { w.String(text) },
		Result: func(r *xdr.Reader) error {
			got, who, security := r.String(1<<20), r.String(100), r.Uint32()
			if err := r.End(); err != nil {
				return err
			}
			if got != text || who != fmt.Sprint(uid) || security != 390002+uint32(service) {
				return fmt.Errorf("answer %q for %s by %d, want %q for %d", got, who, security, text, uid)
			}
			return nil
		}}
}
