package rpcrdma

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/longbuf"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/responder"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// headRoom is what a call or reply may be longer than its payload.
const headRoom = 64 << 10

// ServerConfig says what a Server grants its clients. Zero fields take the
// defaults given.
type ServerConfig struct {
	// InlineIn and InlineOut are the sizes in bytes of the buffers for messages
	// to and from a client: whole KiB from 1024 to 256 KiB. Default 4096.
	InlineIn, InlineOut int
	// Versions of the protocol that clients may speak. Default: AllVersions.
	Versions Versions
	// Credits is the most calls that one client may have outstanding (default
	// 128). TotalCredits (default 2048) are shared among all clients: as they
	// become more, each is granted less, but never less than one.
	Credits, TotalCredits int
	// MaxPayload bounds the payload of one call or reply; default 1 MiB.
	MaxPayload int
	// Memory bounds the memory for chunks of all outstanding calls (default
	// 128 MiB), ConnMemory that of one client's (default a quarter). A
	// call that needs more than is free waits.
	Memory, ConnMemory int
	// MaxConns bounds the clients connected; more are rejected. Default 256.
	MaxConns int
	// ReadDepth is how many RDMA Reads a client is asked to serve at a time;
	// default 16.
	ReadDepth int
	// ReadReplies lets replies that fit neither inline nor the client's chunks
	// travel by read chunks (RFC 5666 section 3.8), which clients of RFC 8166
	// do not understand, and which need memory windows. DoneTimeout ends the connection of a client that does
	// not send RDMA_DONE for so long; default 30 s.
	ReadReplies bool
	DoneTimeout time.Duration
	// Backward is how many calls a handler can have outstanding on one client
	// (RFC 8167), by transport.Request.Back, which is nil when it is 0.
	Backward int
	// StallTimeout ends the connection of a client that neither takes its
	// replies nor serves RDMA Reads for so long; default 30 s.
	StallTimeout time.Duration
	// IdleTimeout ends the connection of a client that has made no call for so
	// long; default 10 minutes, negative for never.
	IdleTimeout time.Duration
	// Log gets connections, and why they ended. Default: none.
	Log *slog.Logger
}

func def[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

func (cfg *ServerConfig) complete(caps verbs.Caps) error {
	def(&cfg.InlineIn, 4096)
	def(&cfg.InlineOut, 4096)
	def(&cfg.Credits, 128)
	def(&cfg.TotalCredits, 2048)
	def(&cfg.MaxPayload, 1<<20)
	def(&cfg.Memory, 128<<20)
	def(&cfg.ConnMemory, cfg.Memory/4)
	def(&cfg.MaxConns, 256)
	def(&cfg.ReadDepth, 16)
	def(&cfg.StallTimeout, 30*time.Second)
	def(&cfg.IdleTimeout, 10*time.Minute)
	if cfg.Versions == (Versions{}) {
		cfg.Versions = AllVersions
	}
	def(&cfg.DoneTimeout, 30*time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.ReadDepth = min(cfg.ReadDepth, caps.MaxReadDepth)
	most := caps.MaxQueue - recvSlack - cfg.Backward
	if cfg.ReadReplies {
		most /= 2
	}
	cfg.Credits = min(cfg.Credits, most)
	for _, n := range []int{cfg.InlineIn, cfg.InlineOut} {
		if n%1024 != 0 || n < wire.MinInline || n > wire.MaxInline || n > caps.MaxMessage {
			return fmt.Errorf("rpcrdma: inline size of %d bytes", n)
		}
	}
	switch {
	case cfg.Versions.Low > cfg.Versions.High || !AllVersions.Has(cfg.Versions.Low) || !AllVersions.Has(cfg.Versions.High):
		return fmt.Errorf("rpcrdma: versions %d to %d", cfg.Versions.Low, cfg.Versions.High)
	case cfg.Backward < 0 || cfg.Credits < 1 || cfg.TotalCredits < 1 || cfg.MaxConns < 1 || cfg.ReadDepth < 0 || cfg.StallTimeout < 0 || cfg.DoneTimeout < 0:
		return errors.New("rpcrdma: credits, connections, reads and timeouts must be positive")
	case cfg.ReadReplies && caps.RegionKeys:
		// What is opened for one reply would be all clients' memory, and stay open.
		return fmt.Errorf("rpcrdma: no replies by read chunks over device %s, which has no memory windows", caps.Device)
	case cfg.MaxPayload < 1 || cfg.ConnMemory > cfg.Memory || cfg.ConnMemory < 2*longbuf.RoundUp(cfg.MaxPayload+headRoom, longbuf.Unit):
		return fmt.Errorf("rpcrdma: %d bytes of memory, %d for a client, cannot hold a call with payloads of %d",
			cfg.Memory, cfg.ConnMemory, cfg.MaxPayload)
	case caps.MaxQueue < groupWRs+1+cfg.ReadDepth || caps.MaxSGE < 1:
		return fmt.Errorf("rpcrdma: device %s has too short queues", caps.Device)
	}
	return nil
}

// receiveSize is the size of the receive buffers. In version 2 it is not less
// than the default (the draft, section 3.3).
func (cfg *ServerConfig) receiveSize() int {
	if cfg.Versions.Has(Version2) {
		return max(cfg.InlineIn, wire.DefaultInline2)
	}
	return cfg.InlineIn
}

// ServerStats is a snapshot of a Server's counters. In Stats, the chunks that
// calls came with are counted as a Link counts them, LongReplies are the reply
// chunks used, Credits the sum of the last grants to the living connections.
type ServerStats struct {
	transport.Stats
	// Conns is the number of connections now, Rejects and Drops how many were
	// refused for want of room and ended for a client's fault.
	Conns, Rejects, Drops uint64
	// VersErrors and ChunkErrors count RDMA_ERROR replies, Ignored the
	// messages that are owed no answer.
	VersErrors, ChunkErrors, Ignored uint64
	// BytesRead and BytesWritten were moved by RDMA Read and RDMA Write, in
	// Reads and Writes work requests.
	Reads, Writes, BytesRead, BytesWritten uint64
	// ReadReplies were sent with read chunks; Dones counts the RDMA_DONE that
	// came for them.
	ReadReplies, Dones uint64
	// BackwardCalls were made on clients.
	BackwardCalls uint64
	Memory        longbuf.Stats
}

// serverCounters is ServerStats while it counts.
type serverCounters struct {
	responder.Counters
	calls, connects, connectFails, received atomic.Uint64
	rejects, drops, conns                   atomic.Uint64
	dones, backward, ignored                atomic.Uint64
}

// Server is the responder: it serves a transport.Handler to clients of RPC
// over RDMA versions 1 (RFC 8166, RFC 8797) and 2 (the draft) on a device. It
// answers each message in the version that it has.
type Server struct {
	dev     verbs.Device
	handler transport.Handler
	cfg     ServerConfig
	pool    *longbuf.Pool
	region  verbs.MemoryRegion
	count   serverCounters

	mu     sync.Mutex
	closed bool
	stops  map[*context.CancelFunc]struct{} // one for each Serve
	conns  map[*serverConn]struct{}
	done   sync.WaitGroup // calls of Serve
}

// NewServer makes a Server. It borrows dev and h until Close.
func NewServer(dev verbs.Device, h transport.Handler, cfg ServerConfig) (*Server, error) {
	if err := cfg.complete(dev.Caps()); err != nil {
		return nil, err
	}
	arena, err := mem.NewArena(cfg.Memory)
	if err != nil {
		return nil, err
	}
	region, err := dev.Register(arena)
	if err != nil {
		return nil, errors.Join(err, arena.Close())
	}
	return &Server{
		dev: dev, handler: h, cfg: cfg, pool: longbuf.New(arena), region: region,
		stops: map[*context.CancelFunc]struct{}{},
		conns: map[*serverConn]struct{}{},
	}, nil
}

// Serve takes connections from ln, which it borrows, until ctx ends, the
// Server is closed (transport.ErrClosed) or ln fails. It returns when all
// connections that it took have ended and their calls been joined.
func (s *Server) Serve(ctx context.Context, ln verbs.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		stop()
		return transport.ErrClosed
	}
	s.stops[&stop] = struct{}{}
	s.done.Add(1)
	s.mu.Unlock()
	defer s.done.Done()

	var conns sync.WaitGroup
	conns.Go(func() { s.runWatch(ctx) })
	err := s.accept(ctx, ln, &conns)
	stop()
	conns.Wait()

	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stops, &stop)
	if s.closed {
		return transport.ErrClosed
	}
	return err
}

func (s *Server) accept(ctx context.Context, ln verbs.Listener, conns *sync.WaitGroup) error {
	for {
		req, err := ln.Accept(ctx)
		if err != nil {
			return err
		}
		c := newServerConn(s, req)
		if !s.admit(c) {
			s.count.rejects.Add(1)
			s.cfg.Log.Warn("client rejected: too many connections", "client", req.RemoteAddr())
			if err := req.Reject(nil); err != nil {
				s.cfg.Log.Debug("rejecting a client", "client", req.RemoteAddr(), "err", err)
			}
			continue
		}
		conns.Go(func() { c.runConn(ctx, req) })
	}
}

// admit counts c in, if there is room.
func (s *Server) admit(c *serverConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) >= s.cfg.MaxConns {
		return false
	}
	s.conns[c] = struct{}{}
	s.count.conns.Store(uint64(len(s.conns)))
	return true
}

func (s *Server) forget(c *serverConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.count.conns.Store(uint64(len(s.conns)))
}

// grant is how many credits a client that asks for n gets: a fair share of
// what all may have.
func (s *Server) grant(n uint32) int {
	share := s.cfg.TotalCredits / max(1, int(s.count.conns.Load()))
	return max(1, min(int(min(n, 1<<30)), s.cfg.Credits, share))
}

// runWatch ends connections whose client has stalled or fallen silent.
func (s *Server) runWatch(ctx context.Context) {
	tick := time.NewTicker(s.cfg.lookInterval())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.look(now)
		}
	}
}

// lookInterval is how often clients are looked at: several times in the shortest time
// that one is given.
func (cfg *ServerConfig) lookInterval() time.Duration {
	const looks = 8
	return max(min(cfg.StallTimeout, cfg.DoneTimeout)/looks, time.Millisecond)
}

// look ends the connections whose client, by now, has had its time.
func (s *Server) look(now time.Time) {
	s.mu.Lock()
	conns := make([]*serverConn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		c.look(now)
	}
}

// Close ends all connections, waits for every Serve to return and gives back
// the memory. Outstanding calls see their context end and are waited for.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.done.Wait()
		return nil
	}
	s.closed = true
	for stop := range s.stops {
		(*stop)()
	}
	s.mu.Unlock()
	s.done.Wait()
	return errors.Join(s.region.Close(), s.pool.Arena.Close())
}

// Stats is a snapshot of the counters since NewServer.
func (s *Server) Stats() ServerStats {
	n := &s.count
	st := ServerStats{
		Stats: transport.Stats{
			Calls: n.calls.Load(), Replies: n.Replies.Load(),
			Connects: n.connects.Load(), ConnectFails: n.connectFails.Load(),
			BytesSent: n.Sent.Load(), BytesReceived: n.received.Load(),
			InlineCalls: n.Inline.Load(), ReadChunks: n.ReadChunks.Load(), PositionZero: n.PositionZero.Load(),
			WriteChunks: n.WriteChunks.Load(), ReplyChunks: n.ReplyChunks.Load(), LongReplies: n.LongReplies.Load(),
			RemoteInvalidations: n.Invalidations.Load(),
		},
		Conns: n.conns.Load(), Rejects: n.rejects.Load(), Drops: n.drops.Load(),
		VersErrors: n.VersErrors.Load(), ChunkErrors: n.ChunkErrors.Load(), Ignored: n.ignored.Load(),
		Reads: n.Reads.Load(), Writes: n.Writes.Load(),
		BytesRead: n.BytesRead.Load(), BytesWritten: n.BytesWritten.Load(),
		ReadReplies: n.ReadReplies.Load(), Dones: n.dones.Load(), BackwardCalls: n.backward.Load(),
		Memory: s.pool.Stats(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		st.Credits += uint64(c.granted.Load())
	}
	return st
}
