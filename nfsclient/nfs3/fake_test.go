package nfs3

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/testlog"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// step is one call that a server expects and how it answers.
type step struct {
	prog, vers, proc uint32
	// args, when not nil, gets the arguments, parsed into it, before check.
	args  wire.Message
	check func(t *testing.T)
	reply wire.Message
	raw   []byte // instead of reply
	err   error  // instead of a reply
	// resent says that an earlier transmission may have been carried out.
	resent bool
}

// nfsStep is a step of NFSv3.
func nfsStep(proc uint32, reply wire.Message) step {
	return step{prog: wire.NFSProgram, vers: wire.NFSVersion, proc: proc, reply: reply}
}

func (s step) with(args wire.Message, check func(t *testing.T)) step {
	s.args, s.check = args, check
	return s
}

// fakeServer is a transport.Caller that answers from a script. It checks that the client
// keeps the contract: payloads are registered, and replies within ReplyMax.
type fakeServer struct {
	t      *testing.T
	limits transport.Limits

	mu     sync.Mutex
	script []step
	arenas map[*mem.Arena]bool
	closed bool
}

func newFake(t *testing.T, script ...step) *fakeServer {
	f := &fakeServer{t: t, script: script, arenas: map[*mem.Arena]bool{}}
	t.Cleanup(func() {
		if len(f.script) > 0 {
			t.Errorf("%d calls expected that never came, first program %d procedure %d", len(f.script), f.script[0].prog, f.script[0].proc)
		}
	})
	return f
}

func (f *fakeServer) expect(script ...step) { f.script = append(f.script, script...) }

func (f *fakeServer) Call(ctx context.Context, c *transport.Call) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return &transport.Error{Fate: transport.NotSent, Err: transport.ErrClosed}
	}
	if err := ctx.Err(); err != nil {
		return &transport.Error{Fate: transport.NotSent, Err: err}
	}
	if len(f.script) == 0 {
		f.t.Errorf("unexpected call: program %d procedure %d", c.Prog, c.Proc)
		return errors.New("unexpected")
	}
	s := f.script[0]
	f.script = f.script[1:]
	if c.Prog != s.prog || c.Vers != s.vers || c.Proc != s.proc {
		f.t.Errorf("call of program %d version %d procedure %d, expected %d %d %d", c.Prog, c.Vers, c.Proc, s.prog, s.vers, s.proc)
		return errors.New("unexpected")
	}
	for _, p := range append(append([]transport.Payload{}, c.Send...), c.Recv...) {
		for _, seg := range p {
			if !f.arenas[seg.Arena] {
				f.t.Errorf("procedure %d: payload in memory that was not registered", c.Proc)
			}
		}
	}
	if s.args != nil {
		var r xdr.Reader
		r.Reset(unreduced(c), nil)
		s.args.Parse(&r)
		if err := r.End(); err != nil {
			f.t.Errorf("procedure %d: arguments: %v", c.Proc, err)
		}
	}
	if s.check != nil {
		s.check(f.t)
	}
	c.Resent = c.Resent || s.resent
	if s.err != nil {
		return s.err
	}
	buf := s.raw
	if s.reply != nil {
		var w xdr.Writer
		s.reply.Append(&w)
		buf = w.Bytes()
	}
	room := c.ReplyMax
	for _, v := range c.Recv {
		room += v.Len() + xdr.Pad(v.Len())
	}
	if s.raw == nil && len(buf) > room {
		f.t.Errorf("procedure %d: reply of %d bytes, but room for %d", c.Proc, len(buf), room)
	}
	var r xdr.Reader
	r.Reset(buf, c.Recv)
	return c.Result(&r)
}

// unreduced is the arguments with payloads in their places.
func unreduced(c *transport.Call) []byte {
	var w xdr.Writer
	w.Reset(nil, c.Send)
	c.Args(&w)
	b, out, at := w.Bytes(), []byte(nil), 0
	for _, m := range w.Marks() {
		data := make([]byte, m.Len+xdr.Pad(m.Len))
		c.Send[m.Index].CopyOut(0, data[:m.Len])
		out = append(append(out, b[at:m.Off]...), data...)
		at = m.Off
	}
	return append(out, b[at:]...)
}

func (f *fakeServer) Register(a *mem.Arena) error {
	f.arenas[a] = true
	return nil
}

func (f *fakeServer) Unregister(a *mem.Arena) error {
	delete(f.arenas, a)
	return nil
}

func (f *fakeServer) Limits() transport.Limits { return f.limits }
func (f *fakeServer) Stats() transport.Stats   { return transport.Stats{} }

func (f *fakeServer) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

// fakeDial returns the servers by port; each is dialed as often as it is listed.
func fakeDial(t *testing.T, servers map[uint16][]*fakeServer) func(context.Context, netip.AddrPort) (transport.Caller, error) {
	t.Cleanup(func() {
		for port, left := range servers {
			if len(left) > 0 {
				t.Errorf("port %d: %d more connections expected", port, len(left))
			}
		}
	})
	return func(_ context.Context, to netip.AddrPort) (transport.Caller, error) {
		s := servers[to.Port()]
		if len(s) == 0 {
			t.Errorf("unexpected connection to %v", to)
			return nil, errors.New("unexpected")
		}
		servers[to.Port()] = s[1:]
		t.Cleanup(func() {
			if !s[0].closed {
				t.Errorf("connection to %v was not closed", to)
			}
		})
		return s[0], nil
	}
}

var (
	dirAttr  = wire.Attr{Type: nfsclient.Directory, Mode: 0o755, Nlink: 2, FileID: 1, Mtime: wire.Time{Sec: 5}}
	fileAttr = wire.Attr{Type: nfsclient.Regular, Mode: 0o100644, Nlink: 1, Size: 100, FileID: 2}
	dirPost  = wire.PostAttr{Set: true, Attr: dirAttr}
	filePost = wire.PostAttr{Set: true, Attr: fileAttr}
	fsInfo   = wire.FSInfoRes{Attr: dirPost, ReadMax: 1 << 20, WriteMax: 1 << 19, DirPref: 4096, MaxFileSize: 1 << 60,
		TimeDelta: wire.Time{Nsec: 1}, Properties: wire.PropLink | wire.PropSymlink | wire.PropHomogeneous | wire.PropCanSetTime}
	pathConf = wire.PathConfRes{LinkMax: 100, NameMax: 255, NoTrunc: true}
)

const mountPort = 1234

func mntStep(reply wire.Message) step {
	return step{prog: wire.MountProgram, vers: wire.MountVersion, proc: wire.MountMnt, reply: reply}
}

func mntOK(t *testing.T) *fakeServer {
	return newFake(t, mntStep(&wire.MntRes{Handle: "root", Flavors: []uint32{wire.AuthSys}}))
}

func umnt(t *testing.T) *fakeServer {
	args := &wire.PathArgs{}
	return newFake(t, step{prog: wire.MountProgram, vers: wire.MountVersion, proc: wire.MountUmnt, reply: &wire.Void{},
		args: args, check: func(t *testing.T) {
			if args.Path != "/export" {
				t.Errorf("UMNT of %q", args.Path)
			}
		}})
}

func config(t *testing.T, nfs *fakeServer, servers map[uint16][]*fakeServer) Config {
	return Config{Host: "server", Addr: netip.MustParseAddr("192.0.2.1"), Export: "/export", Caller: nfs,
		Dial: fakeDial(t, servers), MountPort: mountPort, Log: testlog.New(t)}
}

// mounted is a client of a server that has answered FSINFO and PATHCONF, and
// its registered arena. Waits of the client end at once and are recorded.
func mounted(t *testing.T) (*Client, *fakeServer, *mem.Arena, *[]time.Duration) {
	t.Helper()
	nfs := newFake(t, nfsStep(wire.ProcFSInfo, &fsInfo), nfsStep(wire.ProcPathConf, &pathConf))
	c, err := Mount(t.Context(), config(t, nfs, map[uint16][]*fakeServer{mountPort: {mntOK(t), umnt(t)}}))
	if err != nil {
		t.Fatal(err)
	}
	waits := &[]time.Duration{}
	c.sleep = func(ctx context.Context, d time.Duration) error {
		*waits = append(*waits, d)
		return ctx.Err()
	}
	a, err := mem.NewArena(2 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Register(a); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if !nfs.closed {
			t.Error("transport left open")
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, nfs, a, waits
}

func wantStatus(t *testing.T, err error, want nfsclient.Status) {
	t.Helper()
	if s, ok := nfsclient.StatusOf(err); !ok || s != want {
		t.Errorf("got %v, want status %v", err, want)
	}
}

func wantProtocol(t *testing.T, err error, words string) {
	t.Helper()
	var te *transport.Error
	if !errors.Is(err, transport.ErrProtocol) || !errors.As(err, &te) || te.Fate != transport.Answered || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want a protocol error that says %q", err, words)
	}
}
