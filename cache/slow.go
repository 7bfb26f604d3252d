package cache

import (
	"context"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// slowdown is the state of a file whose WRITEs the server wants later
// (NFS3ERR_JUKEBOX): its data is dirty again and holds no background writer.
// One WRITE at a time asks whether the server takes it now.
type slowdown struct {
	retry   time.Duration // how long the next wait is
	waiting bool          // runLater is under way; nothing is sent
}

// slowShare is the part of MaxDirty that such a file may fill, as a divisor:
// whoever writes to it must not take the memory of all others.
const slowShare = 32

// tryLater says that a server, or a client that gives its answer through, wants
// the call again later.
func tryLater(err error) bool {
	s, ok := nfsclient.StatusOf(err)
	return ok && s == nfsclient.ErrJukebox
}

// later has what is dirty wait; mu is held.
func (i *Inode) later() {
	w := &i.wb
	if w.slow == nil {
		w.slow = &slowdown{retry: retryFirst}
	}
	s := w.slow
	if s.waiting {
		return
	}
	s.waiting = true
	wait := s.retry
	s.retry = min(2*s.retry, retryLast)
	i.refs.Add(1)
	if !i.c.spawn(func() { i.runLater(i.c.life, s, wait) }) {
		i.unpin() // nothing is sent any more
	}
}

// runLater waits and has one WRITE sent; Close joins it.
func (i *Inode) runLater(ctx context.Context, s *slowdown, wait time.Duration) {
	_ = pause(ctx, wait)
	i.mu.Lock()
	s.waiting = false
	i.start()
	i.unlock()
	i.unpin()
}

// quiet says that nothing may be sent now but what is under way.
func (w *writeback) quiet() bool {
	return w.slow != nil && (w.slow.waiting || len(w.flight) > 0)
}

// crowded says that a file that the server wants later has enough data waiting;
// mu is held.
func (i *Inode) crowded() bool {
	return i.wb.slow != nil && i.wb.dirty.held() > i.c.cfg.MaxDirty/slowShare
}
