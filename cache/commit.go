package cache

import (
	"context"
	"fmt"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// sync puts everything written before on stable storage. Errors of writing are
// recorded for File.report; the error returned is that ctx ended first, and
// nothing is lost then.
func (i *Inode) sync(ctx context.Context) error {
	i.mu.Lock()
	defer i.unlock()
	target := i.wb.seq
	for {
		if err := i.drainLocked(ctx, target); err != nil {
			return err
		}
		if !i.wb.unstable.before(target) {
			return nil
		}
		if err := i.commitLocked(ctx); err != nil {
			return err
		}
	}
}

// drain sends everything written before, without a COMMIT.
func (i *Inode) drain(ctx context.Context) error {
	i.mu.Lock()
	defer i.unlock()
	return i.drainLocked(ctx, i.wb.seq)
}

// drainLocked waits until nothing written up to target is unsent; mu is held,
// and is released meanwhile.
func (i *Inode) drainLocked(ctx context.Context, target uint64) error {
	w := &i.wb
	for w.dirty.before(target) || w.flight.before(target) {
		w.sendSeq = max(w.sendSeq, target)
		i.start()
		if !w.dirty.before(target) && !w.flight.before(target) {
			return nil
		}
		if err := i.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// wait sleeps until there is news; mu is held, and is released meanwhile.
func (i *Inode) wait(ctx context.Context) error {
	wake := i.sleeper()
	i.unlock()
	var err error
	select {
	case <-wake:
	case <-ctx.Done():
		err = ctx.Err()
	}
	i.mu.Lock()
	return err
}

// before says whether a write up to target is in l.
func (l layer) before(target uint64) bool {
	for _, e := range l {
		if e.seq <= target {
			return true
		}
	}
	return false
}

// commitLocked makes unstable data durable: what the server still has, by its
// verifier, is let go of, and the rest is dirty again. One COMMIT at a time; if
// another is under way this only waits for it. mu is held, and is released
// meanwhile.
func (i *Inode) commitLocked(ctx context.Context) error {
	w := &i.wb
	if w.commits || w.held {
		return i.wait(ctx)
	}
	if len(w.unstable) == 0 {
		return nil
	}
	w.commits = true
	if w.restarts != nil && w.restarts.wait > 0 {
		wait := w.restarts.wait
		i.unlock()
		err := pause(ctx, wait)
		i.mu.Lock()
		if err != nil || len(w.unstable) == 0 {
			w.commits = false
			i.awaken()
			return err
		}
	}
	w.batch++
	users, had, same := writersOf(w.unstable), w.unstable[0].ver, true
	for _, e := range w.unstable {
		e.batch = w.batch
		same = same && e.ver == had
	}
	settled := w.settled()
	i.unlock()
	st := i.begin()
	ver, wcc, err := i.commitCall(ctx, users)
	i.mu.Lock()
	i.finish(st, &wcc, true)
	again := err != nil && ctx.Err() != nil
	w.commits = false
	var rest, lost layer
	matched := 0
	for _, e := range w.unstable {
		switch {
		case e.batch != w.batch || again:
			rest = append(rest, e)
		case err != nil:
			lost = append(lost, e)
		case e.ver == ver:
			i.dropExtent(e)
			matched++
		default:
			lost = append(lost, e)
		}
	}
	w.unstable = rest
	if err == nil && same && ver == had {
		// What was replaced meanwhile was committed, too: what replaced it need
		// not answer for it. Else who goes on writing would keep others waiting.
		for _, e := range rest {
			e.seq = max(e.seq, settled+1)
		}
	}
	if err == nil {
		i.judge(matched, len(lost))
	} else if !again && len(lost) > 0 {
		i.fail(err)
	}
	for _, e := range lost {
		if err != nil {
			i.dropExtent(e)
		} else {
			i.redirty(e)
		}
	}
	i.list()
	i.awaken()
	i.start()
	if again {
		return err
	}
	return nil
}

// settled is up to which write all have been sent and answered.
func (w *writeback) settled() uint64 {
	seq := w.seq
	for _, l := range []layer{w.dirty, w.flight} {
		for _, e := range l {
			seq = min(seq, e.seq-1)
		}
	}
	return seq
}

// commitCall makes the COMMIT as the first of users whom the server lets: one is
// enough for the data of all. There is at least one.
func (i *Inode) commitCall(ctx context.Context, users []nfsclient.Cred) (nfsclient.Verifier, nfsclient.Wcc, error) {
	ver, wcc, err := i.commitAs(ctx, users[0])
	for _, cr := range users[1:] {
		if !denied(err) {
			break
		}
		ver, wcc, err = i.commitAs(ctx, cr)
	}
	return ver, wcc, err
}

func (i *Inode) commitAs(ctx context.Context, cr nfsclient.Cred) (nfsclient.Verifier, nfsclient.Wcc, error) {
	for retry := retryFirst; ; retry = min(2*retry, retryLast) {
		ver, wcc, err := i.c.cl.Commit(ctx, cr, i.h, 0, 0)
		if !tryLater(err) {
			return ver, wcc, err
		}
		if err := pause(ctx, retry); err != nil {
			return ver, wcc, err
		}
	}
}

// runCommit is a COMMIT in the background; Close joins it.
func (i *Inode) runCommit(ctx context.Context) {
	i.mu.Lock()
	if err := i.commitLocked(ctx); err != nil && ctx.Err() == nil {
		i.c.cfg.Log.Warn(fmt.Sprintf("cache: commit of inode %d: %v", i.ino, err))
	}
	i.unlock()
	i.c.relieve()
	i.unpin()
}
