package nfsd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	nlm "github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/tcp"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Callbacks says how clients are called.
type Callbacks struct {
	// Port finds a client's port of a program, by "tcp" or "udp", as its rpcbind tells.
	Port func(ctx context.Context, client netip.Addr, prog uint32, network string) (uint16, error)
	// Sync calls GRANTED, not GRANTED_MSG as Linux servers do.
	Sync bool
}

// callbackTimeout bounds a call of a client.
const callbackTimeout = 10 * time.Second

// granted tells a client of a lock that it waited for.
func (s *Server) granted(q *queuedLock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.running.Add(1)
		go s.runGranted(q)
	}
}

func (s *Server) runGranted(q *queuedLock) {
	defer s.running.Done()
	ctx, cancel := context.WithTimeout(s.ctx, callbackTimeout)
	defer cancel()
	if stat, err := s.tell(ctx, q); err != nil || stat != nlm.Granted {
		s.cfg.Log.Info("a lock that was waited for is not wanted", "client", q.owner.host, "status", stat, "err", err)
		s.locks.unwanted(q)
	}
}

// tell calls GRANTED or GRANTED_MSG and returns the answer.
func (s *Server) tell(ctx context.Context, q *queuedLock) (nlm.Stat, error) {
	host, err := netip.ParseAddr(q.owner.host)
	if err != nil {
		return nlm.Failed, err
	}
	port, err := s.cfg.Callbacks.Port(ctx, host, nlm.Program, "tcp")
	if err != nil {
		return nlm.Failed, err
	}
	d, err := tcp.NewDialer(tcp.Config{Addr: netip.AddrPortFrom(host, port)})
	if err != nil {
		return nlm.Failed, err
	}
	c := reconnect.New(d, reconnect.Config{Soft: true})
	defer func() { _ = c.Close() }() // what it was for has been done
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	args := q.args
	args.Cookie = string(b[:])
	call := &transport.Call{Prog: nlm.Program, Vers: nlm.Version, Proc: nlm.ProcGranted, Args: args.Append, ReplyMax: nlm.ResReplyMax}
	if s.cfg.Callbacks.Sync {
		var res nlm.Res
		call.Result = func(r *xdr.Reader) error {
			res.Parse(r)
			return r.End()
		}
		err := c.Call(ctx, call)
		return res.Stat, err
	}
	answer := make(chan nlm.Stat, 1)
	s.answers.Store(args.Cookie, answer)
	defer s.answers.Delete(args.Cookie)
	call.Proc = nlm.ProcGrantedMsg
	if err := c.Call(ctx, call); err != nil {
		return nlm.Failed, err
	}
	select {
	case stat := <-answer:
		return stat, nil
	case <-ctx.Done():
		return nlm.Failed, ctx.Err()
	}
}

// grantedRes is GRANTED_RES, the answer to GRANTED_MSG.
func (s *Server) grantedRes(q *transport.Request) transport.AcceptStat {
	a, ok := args[nlm.Res](q)
	if !ok {
		return transport.GarbageArgs
	}
	if waits, ok := s.answers.LoadAndDelete(a.Cookie); ok {
		waits.(chan nlm.Stat) <- a.Stat
	}
	return transport.Success
}

// Notify calls SM_NOTIFY at all clients that held locks before the last Crash, over UDP.
func (s *Server) Notify(ctx context.Context, name string) error {
	var errs []error
	for _, host := range s.locks.hosts() {
		if err := s.notify(ctx, host, name); err != nil {
			errs = append(errs, fmt.Errorf("nfsd: SM_NOTIFY to %s: %w", host, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Server) notify(ctx context.Context, host, name string) error {
	at, err := netip.ParseAddr(host)
	if err != nil {
		return err
	}
	port, err := s.cfg.Callbacks.Port(ctx, at, nlm.NSMProgram, "udp")
	if err != nil {
		return err
	}
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, port)))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	args := nlm.StateChange{Name: name, State: int32(2*s.stats.crashes.Load() + 1)}
	call := &transport.Call{Prog: nlm.NSMProgram, Vers: nlm.NSMVersion, Proc: nlm.NSMNotifyProc, Args: args.Append}
	var w xdr.Writer
	const xid = 1
	oncrpc.AppendCall(&w, xid, call)
	if _, err := conn.Write(w.Bytes()); err != nil {
		return err
	}
	reply := make([]byte, 1024)
	n, err := conn.Read(reply)
	if err != nil {
		return err
	}
	var r xdr.Reader
	r.Reset(reply[:n], nil)
	return oncrpc.DecodeReply(&r, xid, call)
}
