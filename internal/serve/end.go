package serve

import (
	"context"
	"errors"
	"fmt"

	"github.com/rdmafs/rdmafs/internal/mount"
	"github.com/rdmafs/rdmafs/internal/mounttable"
)

var errForced = errors.New("files were open, and what they had not written is lost")

// Serve returns when the mount has ended; the error says what data was lost. It ends when
// anybody unmounts it. When ctx ends, Serve unmounts it unless files on it are open
// (Config.Busy). If it was detached by then, Serve returns as soon as what was written
// is safe. After that, and after a forced end, this process still answers those who
// have files open, until Done.
func (m *Mount) Serve(ctx context.Context) error {
	ended, detached, joined := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go m.runUnmount(ctx, ended, detached, joined)
	var err error
	loss, success := "DATA MAY BE LOST", "unmounted"
	select {
	case <-m.unmounted:
		close(ended)
		<-joined
		err = m.close(m.socket.StopSyncs())
	case <-detached:
		err = errors.Join(m.session.Cache().Sync(m.force.expired), m.socket.StopSyncs())
		success = "ended while detached: files still open are served no longer than this process goes on"
		go m.runAbandoned()
	case <-m.force.expired.Done():
		close(ended)
		err, loss = errForced, "forced to end"
		go m.runAbandoned()
	}
	if err != nil {
		m.cfg.Log.Error(fmt.Sprintf("%s: %v", loss, err))
	} else {
		m.cfg.Log.Info(success)
	}
	if m.cfg.Ended != nil {
		m.cfg.Ended(err)
	}
	m.socket.Finish(err)
	<-m.answered
	return err
}

// close ends the session. lost is what is lost already.
func (m *Mount) close(lost error) error {
	defer close(m.done)
	defer m.force.cancel()
	return errors.Join(lost, m.session.Close(m.force.expired))
}

// runAbandoned ends what Serve has left when the kernel lets go of the file system.
func (m *Mount) runAbandoned() {
	<-m.unmounted
	if err := m.close(nil); err != nil {
		m.cfg.Log.Error(fmt.Sprintf("DATA MAY BE LOST: %v", err))
	}
}

// runUnmount unmounts when ctx ends, if nothing is open, or closes detached if
// that was done already.
func (m *Mount) runUnmount(ctx context.Context, ended <-chan struct{}, detached, joined chan<- struct{}) {
	defer close(joined)
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	select {
	case <-ended:
		return
	default:
	}
	err := mount.Unmount(m.fs)
	switch {
	case errors.Is(err, mounttable.ErrDetached):
		close(detached)
	case err != nil && m.cfg.Busy != nil:
		m.cfg.Busy(err)
	}
}
