package callback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/tcp"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Handler is told what the server calls back. Its methods are called from several
// goroutines at once, and what they are given is theirs.
type Handler interface {
	// Granted says that the server has granted a lock that waited there. It reports
	// whether that lock is wanted, or held; the server takes it back otherwise.
	Granted(l *wire.TestArgs) bool
	// Answer calls NLM_GRANTED_RES at the server, the answer to NLM_GRANTED_MSG.
	Answer(ctx context.Context, res *wire.Res)
	// Notified says that the server has restarted, by the name and the number that it
	// gives: of no more worth than its address.
	Notified(name string, state int32)
}

const (
	// maxCall is more than any call heard here needs: a caller, a handle and an
	// owner's name, in bytes.
	maxCall = 8 << 10
	// maxConns and concurrent are more than one server needs.
	maxConns   = 16
	concurrent = 16
)

// ourListener closes connections from others than the server, so that nobody else can
// take them all.
type ourListener struct {
	net.Listener
	l *Listener
}

func (o ourListener) Accept() (net.Conn, error) {
	for {
		c, err := o.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, err := netip.ParseAddrPort(c.RemoteAddr().String())
		if err == nil && o.l.isServer(from.Addr()) {
			return c, nil
		}
		_ = c.Close() // nothing was said
	}
}

func (l *Listener) isServer(from netip.Addr) bool { return from.Unmap().WithZone("") == l.cfg.Server }

// hears reports whether datagrams from an address are looked at.
func (l *Listener) hears(from netip.Addr) bool { return l.isServer(from) || from.Unmap().IsLoopback() }

func (l *Listener) runTCP(ctx context.Context) {
	err := tcp.Serve(ctx, ourListener{l.tcp, l}, l, tcp.ServerConfig{MaxPayload: maxCall, MaxRecord: maxCall, LeaseBytes: maxCall,
		Concurrent: concurrent, MaxConns: maxConns, Log: l.cfg.Log})
	if err != nil && ctx.Err() == nil {
		l.cfg.Log.Warn(fmt.Sprintf("the lock manager's callbacks are not heard any more: %v", err))
	}
}

// runUDP serves one datagram after the other.
func (l *Listener) runUDP(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = l.udp.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	defer func() { _ = l.udp.Close() }()
	buf := make([]byte, maxCall)
	for ctx.Err() == nil {
		n, from, err := l.udp.ReadFromUDPAddrPort(buf)
		switch {
		case errors.Is(err, net.ErrClosed), ctx.Err() != nil:
			return
		case err != nil || !l.hears(from.Addr()):
			continue // an ICMP error of what was sent before
		}
		if reply := l.answer(ctx, from, buf[:n]); reply != nil {
			_, _ = l.udp.WriteToUDPAddrPort(reply, from) // the server calls again
		}
	}
}

// answer serves one datagram, and returns the reply, nil if there is none.
func (l *Listener) answer(ctx context.Context, from netip.AddrPort, call []byte) []byte {
	var in xdr.Reader
	in.Reset(call, nil)
	var out xdr.Writer
	if !oncrpc.Serve(ctx, l, &transport.Request{Transport: "udp", Peer: from.String(), Args: &in, Reply: &out}) {
		return nil
	}
	return out.Bytes()
}

// Serve implements transport.Handler.
func (l *Listener) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	from, err := netip.ParseAddrPort(q.Peer)
	if err != nil {
		return transport.ProgUnavail
	}
	server := l.isServer(from.Addr())
	switch {
	case q.Prog == wire.NSMProgram && q.Proc == wire.NSMNull && from.Addr().IsLoopback():
		l.giveWay(ctx)
		return transport.ProgUnavail
	case q.Prog == wire.NSMProgram && server:
		return l.serveNSM(q)
	case q.Prog == wire.Program && server:
		return l.serveNLM(ctx, q)
	}
	return transport.ProgUnavail
}

// giveWay leaves NSM to the rpc.statd that somebody on this host is about to start.
func (l *Listener) giveWay(ctx context.Context) {
	if !l.Monitors() {
		return
	}
	if err := l.unregister(ctx, wire.NSMProgram); err != nil {
		l.cfg.Log.Warn(fmt.Sprintf("NSM cannot be left to rpc.statd: %v", err))
		return
	}
	l.cfg.Log.Info("somebody on this host looks for rpc.statd: NSM is left to it")
}

func version(q *transport.Request, only uint32) bool {
	q.Low, q.High = only, only
	return q.Vers == only
}

// serveNSM answers SM_NOTIFY, which has no results.
func (l *Listener) serveNSM(q *transport.Request) transport.AcceptStat {
	if !version(q, wire.NSMVersion) {
		return transport.ProgMismatch
	}
	switch q.Proc {
	case wire.NSMNull:
		return transport.Success
	case wire.NSMNotifyProc:
		var a wire.StateChange
		a.Parse(q.Args)
		if q.Args.End() != nil {
			return transport.GarbageArgs
		}
		l.cfg.Handler.Notified(a.Name, a.State)
		return transport.Success
	}
	return transport.ProcUnavail
}

// serveNLM answers GRANTED and GRANTED_MSG; the answer to that is a call.
func (l *Listener) serveNLM(ctx context.Context, q *transport.Request) transport.AcceptStat {
	if !version(q, wire.Version) {
		return transport.ProgMismatch
	}
	switch q.Proc {
	case wire.ProcNull:
		return transport.Success
	case wire.ProcGranted, wire.ProcGrantedMsg:
	default:
		return transport.ProcUnavail
	}
	var a wire.TestArgs
	a.Parse(q.Args)
	if q.Args.End() != nil {
		return transport.GarbageArgs
	}
	res := wire.Res{Cookie: a.Cookie, Stat: wire.Denied}
	if l.cfg.Handler.Granted(&a) {
		res.Stat = wire.Granted
	}
	if q.Proc == wire.ProcGranted {
		res.Append(q.Reply)
	} else {
		l.cfg.Handler.Answer(ctx, &res)
	}
	return transport.Success
}
