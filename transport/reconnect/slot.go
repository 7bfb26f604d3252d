package reconnect

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/transport"
)

// slot keeps one link up, and replaces it when it is lost.
type slot struct {
	c    *Caller
	wake chan struct{} // holds a token when wanted or condemned were set

	// replied is set when the present link has brought a valid reply.
	replied atomic.Bool

	// fails counts the consecutive attempts and links without a valid reply, and
	// began is when the last attempt started; used by runSlot only.
	fails int
	began time.Time

	// Guarded by Caller.mu.
	link       transport.Link // nil unless up
	condemned  bool           // link must be closed
	wanted     bool           // a call waits
	load       int            // calls on link
	attempts   int            // ended attempts to connect
	err        error          // of the last attempt
	lossLogged transport.Link // whose loss is in the log
	examined   time.Time      // when the link was last
	examining  bool           // runExamine is running
	probed     transport.Link // on which a NULL call is outstanding
}

// runSlot keeps the slot's link until the Caller is closed.
func (s *slot) runSlot(ctx context.Context) {
	defer s.c.wg.Done()
	var link transport.Link
	for st := idle; st != stopped; {
		var e event
		switch st {
		case idle:
			e = s.awaitCall(ctx)
		case dialing:
			link, e = s.dial(ctx)
		case up:
			e = s.watch(ctx, link)
		case closing:
			e = s.close(link)
			link = nil
		case pausing:
			e = s.pause(ctx)
		}
		st = st.after(e)
		if st == idle {
			s.c.wakeWaiters()
		}
	}
}

// awaitCall returns when a call wants a link, or at once if the slot has had one and it is to be kept.
func (s *slot) awaitCall(ctx context.Context) event {
	for {
		s.c.mu.Lock()
		w := s.wanted
		s.wanted = false
		kept := s.c.linked && s.attempts > 0 && s.c.cfg.Keep != nil
		s.c.mu.Unlock()
		w = w || kept && s.c.cfg.Keep()
		if ctx.Err() != nil {
			return stop
		}
		if w {
			return wanted
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
		}
	}
}

func (s *slot) dial(ctx context.Context) (transport.Link, event) {
	s.began = s.c.cfg.Clock.Now()
	dctx, cancel := context.WithTimeout(ctx, s.c.cfg.DialTimeout)
	link, err := s.c.d.Dial(dctx)
	if err == nil {
		if err = s.c.establish(dctx, link); err != nil {
			_ = link.Close() // err says what was wrong
		}
	}
	cancel()
	s.c.mu.Lock()
	s.attempts++
	s.err = err
	if err == nil {
		s.link, s.condemned, s.wanted = link, false, false
		s.c.lastErr, s.c.linked = nil, true
		s.c.noteUp()
		s.replied.Store(false)
	} else {
		s.c.lastErr = err
		s.c.noteDown(err)
	}
	s.c.mu.Unlock()
	s.c.wakeWaiters()
	if err != nil {
		s.fails++
		return nil, failed
	}
	return link, dialed
}

// watch waits until the link is lost or condemned, or the Caller is closed.
func (s *slot) watch(ctx context.Context, link transport.Link) event {
	for {
		select {
		case <-link.Done():
			return lost
		case <-ctx.Done():
			return stop
		case <-s.wake:
			s.c.mu.Lock()
			c := s.condemned
			s.c.mu.Unlock()
			if c {
				return lost
			}
		}
	}
}

func (s *slot) close(link transport.Link) event {
	err := link.Err()
	s.c.mu.Lock()
	s.link = nil
	if err != nil {
		s.c.lastErr = err
	}
	s.c.noteDown(err)
	s.c.mu.Unlock()
	_ = link.Close() // its calls say what was wrong
	if s.replied.Load() {
		s.fails = 0
	} else {
		s.fails++
	}
	return closed
}

// pause waits until the next attempt may start.
func (s *slot) pause(ctx context.Context) event {
	if d := pauseFor(s.fails) - s.c.cfg.Clock.Now().Sub(s.began); d > 0 {
		over := make(chan struct{})
		t := s.c.cfg.Clock.AfterFunc(d, func() { close(over) })
		select {
		case <-over:
		case <-ctx.Done():
			t.Stop()
		}
	}
	if ctx.Err() != nil {
		return stop
	}
	return rested
}

// pauseFor is the back-off after a number of consecutive failures: none after 0,
// about 100 ms after 1, doubled for each further one. The jitter of a quarter keeps
// clients from reconnecting in step when a server comes back.
func pauseFor(fails int) time.Duration {
	if fails == 0 {
		return 0
	}
	d := maxPause
	if fails < 16 {
		d = min(d, firstPause<<(fails-1))
	}
	return d - d/4 + rand.N(d/2)
}

// signal wakes runSlot.
func (s *slot) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
