package callback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/test/rpcbindtest"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// handler wants what is asked with wants, and notes all it is told.
type handler struct {
	wants bool

	mu      sync.Mutex
	granted []wire.TestArgs
	answers []wire.Res
	notices []string
}

func (h *handler) Granted(a *wire.TestArgs) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.granted = append(h.granted, *a)
	return h.wants
}

func (h *handler) Answer(_ context.Context, res *wire.Res) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers = append(h.answers, *res)
}

func (h *handler) Notified(name string, state int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notices = append(h.notices, fmt.Sprintf("%s %d", name, state))
}

func (h *handler) want(yes bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wants = yes
}

// told is all that it was told.
func (h *handler) told() (granted []wire.TestArgs, answers []wire.Res, notices []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.granted), slices.Clone(h.answers), slices.Clone(h.notices)
}

// nothing checks that it was told nothing.
func (h *handler) nothing(t *testing.T) {
	t.Helper()
	if granted, answers, notices := h.told(); len(granted)+len(answers)+len(notices) != 0 {
		t.Errorf("%+v, %+v, %q", granted, answers, notices)
	}
}

// listen starts a Listener for a server.
func listen(t *testing.T, b *rpcbindtest.Rpcbind, server string, h *handler) *Listener {
	t.Helper()
	l, err := Listen(t.Context(), Config{Server: netip.MustParseAddr(server), Rpcbind: b.Addr, Handler: h})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
		for _, e := range b.List() {
			if l.made(e) {
				t.Errorf("still registered: %+v", e)
			}
		}
	})
	return l
}

// port is what rpcbind says.
func port(t *testing.T, b *rpcbindtest.Rpcbind, prog uint32, netid string) int {
	t.Helper()
	for _, e := range b.List() {
		if e.Program == prog && e.NetID == netid {
			p := strings.Split(e.Addr, ".")
			hi, _ := strconv.Atoi(p[len(p)-2])
			lo, _ := strconv.Atoi(p[len(p)-1])
			return hi<<8 | lo
		}
	}
	t.Fatalf("program %d over %s is not registered: %+v", prog, netid, b.List())
	return 0
}

// message is one call.
func message(prog, vers, proc uint32, args func(*xdr.Writer)) []byte {
	var w xdr.Writer
	oncrpc.AppendCall(&w, 7, &transport.Call{Prog: prog, Vers: vers, Proc: proc, Args: args})
	return w.Bytes()
}

// exchange sends a datagram, from an address of this host, and returns the reply.
func exchange(t *testing.T, from string, to int, call []byte) ([]byte, error) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(t.Context(), "udp4", fmt.Sprintf("127.0.0.1:%d", to))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second)) // a guard
	if _, err := c.Write(call); err != nil {
		return nil, err
	}
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	return buf[:n], err
}

// stat is the accept_stat of a reply, and what follows it.
func stat(t *testing.T, reply []byte, err error) (transport.AcceptStat, *xdr.Reader) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var r xdr.Reader
	r.Reset(reply, nil)
	for range 5 { // xid, REPLY, accepted, verifier
		r.Uint32()
	}
	return transport.AcceptStat(r.Uint32()), &r
}

var lock = wire.TestArgs{Cookie: "cookie", Exclusive: true, Lock: wire.Lock{Caller: "here", Handle: "file", OH: "owner", SVID: 7, Length: 9}}

// Over UDP: what the server says reaches the handler, and its answer the server.
func TestCalls(t *testing.T) {
	b, h := rpcbindtest.Start(t, "127.0.0.1:0"), &handler{wants: true}
	l := listen(t, b, "127.0.0.1", h)
	if !l.Monitors() || len(b.List()) != 4 {
		t.Errorf("registered: %+v", b.List())
	}
	nlm, nsm := port(t, b, wire.Program, "udp"), port(t, b, wire.NSMProgram, "udp")
	for _, wants := range []bool{true, false} {
		h.want(wants)
		want := map[bool]wire.Stat{true: wire.Granted, false: wire.Denied}[wants]
		reply, err := exchange(t, "127.0.0.1", nlm, message(wire.Program, wire.Version, wire.ProcGranted, lock.Append))
		got, r := stat(t, reply, err)
		var res wire.Res
		if res.Parse(r); got != transport.Success || r.End() != nil || res != (wire.Res{Cookie: "cookie", Stat: want}) {
			t.Errorf("GRANTED: %v, %+v", got, res)
		}
		reply, err = exchange(t, "127.0.0.1", nlm, message(wire.Program, wire.Version, wire.ProcGrantedMsg, lock.Append))
		if got, r := stat(t, reply, err); got != transport.Success || r.End() != nil {
			t.Errorf("GRANTED_MSG: %v", got)
		}
		if _, answers, _ := h.told(); answers[len(answers)-1] != (wire.Res{Cookie: "cookie", Stat: want}) {
			t.Errorf("GRANTED_RES: %+v", answers)
		}
	}
	if granted, _, _ := h.told(); len(granted) != 4 || granted[0] != lock {
		t.Errorf("the handler was told %+v", granted)
	}
	notice := wire.StateChange{Name: "server", State: 5}
	reply, err := exchange(t, "127.0.0.1", nsm, message(wire.NSMProgram, wire.NSMVersion, wire.NSMNotifyProc, notice.Append))
	got, r := stat(t, reply, err)
	if _, _, notices := h.told(); got != transport.Success || r.End() != nil || !slices.Equal(notices, []string{"server 5"}) {
		t.Errorf("SM_NOTIFY: %v, %q", got, notices)
	}
	for name, c := range map[string]struct {
		prog, vers, proc uint32
		want             transport.AcceptStat
	}{
		"NULL":                   {wire.Program, wire.Version, wire.ProcNull, transport.Success},
		"version 3":              {wire.Program, 3, wire.ProcNull, transport.ProgMismatch},
		"NSM version 2":          {wire.NSMProgram, 2, wire.NSMNotifyProc, transport.ProgMismatch},
		"LOCK":                   {wire.Program, wire.Version, wire.ProcLock, transport.ProcUnavail},
		"SM_SIMU_CRASH":          {wire.NSMProgram, wire.NSMVersion, 5, transport.ProcUnavail},
		"NFS":                    {100003, 3, 0, transport.ProgUnavail},
		"GRANTED of nothing":     {wire.Program, wire.Version, wire.ProcGranted, transport.GarbageArgs},
		"GRANTED_MSG of nothing": {wire.Program, wire.Version, wire.ProcGrantedMsg, transport.GarbageArgs},
		"SM_NOTIFY of nothing":   {wire.NSMProgram, wire.NSMVersion, wire.NSMNotifyProc, transport.GarbageArgs},
	} {
		reply, err := exchange(t, "127.0.0.1", nlm, message(c.prog, c.vers, c.proc, nil))
		if got, _ := stat(t, reply, err); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// No first part of a call is taken for the whole.
func TestTruncated(t *testing.T) {
	b, h := rpcbindtest.Start(t, "127.0.0.1:0"), &handler{wants: true}
	l := listen(t, b, "127.0.0.1", h)
	from := netip.MustParseAddrPort("127.0.0.1:700")
	notice := wire.StateChange{Name: "server", State: 5}
	for _, call := range [][]byte{
		message(wire.Program, wire.Version, wire.ProcGranted, lock.Append),
		message(wire.Program, wire.Version, wire.ProcGrantedMsg, lock.Append),
		message(wire.NSMProgram, wire.NSMVersion, wire.NSMNotifyProc, notice.Append),
	} {
		for n := range call {
			l.answer(t.Context(), from, call[:n])
		}
		l.answer(t.Context(), from, append(call, 0, 0, 0, 0))
	}
	h.nothing(t)
}

// Others than the server are not heard, and what they send costs nothing.
func TestStrangers(t *testing.T) {
	b, h := rpcbindtest.Start(t, "127.0.0.1:0"), &handler{wants: true}
	l := listen(t, b, "192.0.2.1", h)
	notice := wire.StateChange{Name: "server", State: 5}
	for name, call := range map[string][]byte{
		"GRANTED":     message(wire.Program, wire.Version, wire.ProcGranted, lock.Append),
		"GRANTED_MSG": message(wire.Program, wire.Version, wire.ProcGrantedMsg, lock.Append),
		"SM_NOTIFY":   message(wire.NSMProgram, wire.NSMVersion, wire.NSMNotifyProc, notice.Append),
	} {
		// This host is heard, but not believed.
		reply, err := exchange(t, "127.0.0.1", port(t, b, wire.Program, "udp"), call)
		if got, _ := stat(t, reply, err); got != transport.ProgUnavail {
			t.Errorf("%s: %v", name, got)
		}
	}
	c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port(t, b, wire.Program, "tcp")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(guard))
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a stranger's connection stays: %d bytes, %v", n, err)
	}
	h.nothing(t)
	for addr, want := range map[string]bool{"192.0.2.1": true, "::ffff:192.0.2.1": true, "127.0.0.1": true, "192.0.2.2": false, "2001:db8::1": false} {
		if l.hears(netip.MustParseAddr(addr)) != want {
			t.Errorf("%s: heard is not %v", addr, want)
		}
	}
}

// What another program has registered is left to it, and NSM to the rpc.statd that
// somebody looks for.
func TestOthersFirst(t *testing.T) {
	b, h := rpcbindtest.Start(t, "127.0.0.1:0"), &handler{}
	first := listen(t, b, "192.0.2.1", h)
	if _, err := Listen(t.Context(), Config{Server: netip.MustParseAddr("192.0.2.1"), Rpcbind: b.Addr, Handler: h}); !errors.Is(err, ErrTaken) {
		t.Errorf("%v", err)
	}
	if yes, err := first.Registered(t.Context()); !yes || err != nil {
		t.Errorf("%v, %v", yes, err)
	}
	reply, err := exchange(t, "127.0.0.1", port(t, b, wire.NSMProgram, "udp"), message(wire.NSMProgram, wire.NSMVersion, wire.NSMNull, nil))
	if got, _ := stat(t, reply, err); got != transport.ProgUnavail {
		t.Errorf("NULL: %v", got)
	}
	if list := b.List(); first.Monitors() || len(list) != 2 || list[0].Program != wire.Program {
		t.Errorf("registered: %+v", list)
	}
	b.Replace(wire.Program, "0.0.0.0.1.1")
	if yes, err := first.Registered(t.Context()); yes || err != nil {
		t.Errorf("%v, %v", yes, err)
	}
}

// Where rpc.statd is registered, only NLM is.
func TestStatdFirst(t *testing.T) {
	b, h := rpcbindtest.Start(t, "127.0.0.1:0"), &handler{}
	b.Add(wire.NSMProgram, wire.NSMVersion, "udp", "0.0.0.0.1.1")
	if l := listen(t, b, "192.0.2.1", h); l.Monitors() || len(b.List()) != 3 {
		t.Errorf("registered: %+v", b.List())
	}
}

func TestNoRpcbind(t *testing.T) {
	if _, err := Listen(t.Context(), Config{Server: netip.MustParseAddr("::1"), Rpcbind: "/nonexistent/rpcbind.sock"}); err == nil {
		t.Error("no error")
	}
}

// FuzzCall: nothing that a server sends does anything but call the handler with what
// was parsed to the last byte.
func FuzzCall(f *testing.F) {
	notice := wire.StateChange{Name: "server", State: 5}
	f.Add(message(wire.Program, wire.Version, wire.ProcGranted, lock.Append))
	f.Add(message(wire.Program, wire.Version, wire.ProcGrantedMsg, lock.Append))
	f.Add(message(wire.NSMProgram, wire.NSMVersion, wire.NSMNotifyProc, notice.Append))
	server := netip.MustParseAddrPort("192.0.2.1:700")
	f.Fuzz(func(t *testing.T, call []byte) {
		h := &handler{wants: true}
		l := &Listener{cfg: Config{Server: server.Addr(), Handler: h}}
		reply := l.answer(t.Context(), server, call)
		if len(reply)%4 != 0 || len(reply) > maxCall {
			t.Errorf("a reply of %d bytes", len(reply))
		}
		if told := len(h.granted) + len(h.notices); told > 1 || len(h.answers) > len(h.granted) || told == 1 && reply == nil {
			t.Errorf("told %d times, reply %x", told, reply)
		}
	})
}
