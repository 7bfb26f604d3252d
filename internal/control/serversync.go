package control

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/rdmafs/rdmafs/internal/plain"
)

// answerLong does what takes long, a sync or what includes one, and reports the result. It ends
// early when the client hangs up and with StopSyncs.
func (s *Server) answerLong(conn net.Conn, do func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.mu.Lock()
	accepted := s.syncs != nil && do != nil && writeLine(conn, waiting)
	if accepted {
		s.syncs[conn] = cancel
		s.syncing.Add(1)
	}
	s.mu.Unlock()
	if !accepted {
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	gone := make(chan struct{})
	go runAwaitHangUp(conn, cancel, gone)
	err := do(ctx)
	delivered := false
	switch {
	case ctx.Err() != nil:
	case err != nil:
		delivered = writeLine(conn, plain.OneLine(err))
	default:
		delivered = writeLine(conn, done)
	}
	s.mu.Lock()
	if !delivered {
		s.unreported = append(s.unreported, losses(err)...)
	}
	delete(s.syncs, conn)
	s.mu.Unlock()
	s.syncing.Done()
	_ = conn.SetReadDeadline(time.Now())
	<-gone
}

// losses are the parts of a sync's error other than its cancellation. The cache
// reports each of them once.
func losses(err error) (all []error) {
	parts := []error{err}
	if joined, is := err.(interface{ Unwrap() []error }); is {
		parts = joined.Unwrap()
	}
	for _, e := range parts {
		if e != nil && !errors.Is(e, context.Canceled) {
			all = append(all, e)
		}
	}
	return all
}

// runAwaitHangUp cancels the sync of a client that hangs up.
func runAwaitHangUp(conn net.Conn, cancel func(), gone chan<- struct{}) {
	defer close(gone)
	awaitHangUp(conn)
	cancel()
}

// StopSyncs ends the syncs in progress without an answer, and accepts no more: the
// cache is about to be closed. The error is the losses that no client was told of.
func (s *Server) StopSyncs() error {
	s.mu.Lock()
	for _, cancel := range s.syncs {
		cancel()
	}
	s.syncs = nil
	s.mu.Unlock()
	s.syncing.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	unreported := errors.Join(s.unreported...)
	s.unreported = nil
	return unreported
}
