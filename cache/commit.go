package cache

import (
	"context"
	"fmt"

	"github.com/rdmafs/rdmafs/cache/writeback"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// sync puts everything written before on stable storage. Errors of writing are
// recorded for File.report; the error returned is that ctx ended first, and
// nothing is lost then.
func (i *Inode) sync(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	target := i.wb.Seq()
	for {
		var err error
		switch i.wb.Sync(target) {
		case writeback.Done:
			return nil
		case writeback.AskCommit:
			err = i.commit(ctx)
		default:
			i.pump()
			err = i.wait(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// drain sends everything written before, without a COMMIT.
func (i *Inode) drain(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	target := i.wb.Seq()
	for i.wb.Drain(target) != writeback.Done {
		i.pump()
		if err := i.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// wait sleeps until there is news; mu is held, and is released meanwhile.
func (i *Inode) wait(ctx context.Context) error {
	wake := i.waitChan()
	i.mu.Unlock()
	var err error
	select {
	case <-wake:
	case <-ctx.Done():
		err = ctx.Err()
	}
	i.mu.Lock()
	return err
}

// commit makes unstable data durable, or dirty again if the server has lost it.
// One COMMIT at a time; if another is under way this only waits for it. mu is
// held, and is released meanwhile.
func (i *Inode) commit(ctx context.Context) error {
	wait, ok := i.wb.BeginCommit()
	if !ok {
		return i.wait(ctx)
	}
	defer i.pump()
	if wait > 0 {
		i.mu.Unlock()
		err := pause(ctx, wait)
		i.mu.Lock()
		if err != nil {
			i.wb.DropCommit()
			return err
		}
	}
	cr, ok := i.wb.SendCommit()
	if !ok {
		return nil
	}
	i.mu.Unlock()
	st := i.begin()
	r := writeback.Committed{Cred: cr}
	for {
		var ver nfsclient.Verifier
		var wcc nfsclient.Wcc
		err := pause(ctx, r.Wait)
		if err == nil {
			ver, wcc, err = i.c.cl.Commit(ctx, r.Cred, i.h, 0, 0)
		}
		i.mu.Lock()
		unknown := err != nil && ctx.Err() != nil
		if r = i.wb.Committed(ver, err, unknown); r.Again {
			i.mu.Unlock()
			continue
		}
		i.finish(st, &wcc, true)
		i.learnFrom(r, err)
		if unknown {
			return err
		}
		return nil
	}
}

// learnFrom records what a COMMIT has shown: data that is lost, and whether the
// server's verifiers can be relied on. mu is held.
func (i *Inode) learnFrom(r writeback.Committed, err error) {
	switch {
	case r.Lost:
		i.fail(err)
	case r.Trusted:
		i.c.unreliable.Store(false)
	case r.Mistrusted && !i.c.unreliable.Swap(true):
		i.c.cfg.Log.Warn(fmt.Sprintf("cache: the server answers each COMMIT with another write verifier, as if it had lost what was written: writing it again and again, at most every %v", writeback.BackoffLast))
	}
}

// runCommit is a COMMIT in the background; Close joins it.
func (i *Inode) runCommit(ctx context.Context) {
	i.mu.Lock()
	_ = i.commit(ctx) // an error means that ctx has ended
	i.mu.Unlock()
	i.c.wakeFlusherIfShort()
	i.unpin()
}
