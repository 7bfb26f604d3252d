package fs

import (
	"context"
	"math"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// lockCapabilities are those by which the kernel sends locks instead of keeping
// them itself.
func (cfg *Config) lockCapabilities() (caps uint64) {
	if cfg.PosixLocks {
		caps |= fuse.CAP_POSIX_LOCKS
	}
	if cfg.Flocks {
		caps |= fuse.CAP_FLOCK_LOCKS
	}
	return caps
}

// lastOffset is the kernel's for a lock to the end of the file.
const lastOffset = math.MaxInt64

// lockRequest is what a program asks for. The owner of POSIX locks is the kernel's
// number of a table of descriptors, or of an open file (F_OFD_SETLK). That of flock(2)
// is the open file's number here: the kernel uses its own again before we hear of the
// close.
func lockRequest(in *fuse.LkIn, wait bool) (r cache.LockRequest, ok bool) {
	r = cache.LockRequest{Owner: nfsclient.LockOwner(in.Owner), PID: in.Lk.Pid, Wait: wait, Flock: in.LkFlags&fuse.FUSE_LK_FLOCK != 0}
	if r.Flock {
		r.Owner = nfsclient.LockOwner(in.Fh)
	}
	r.Lock.First, r.Lock.Last = in.Lk.Start, in.Lk.End
	if r.Lock.Last >= lastOffset {
		r.Lock.Last = math.MaxUint64
	}
	switch in.Lk.Typ {
	case syscall.F_RDLCK:
		r.Lock.Type = nfsclient.ReadLock
	case syscall.F_WRLCK:
		r.Lock.Type = nfsclient.WriteLock
	case syscall.F_UNLCK:
		r.Lock.Type = nfsclient.Unlocked
	default:
		return r, false
	}
	return r, r.Lock.First <= r.Lock.Last
}

// lockOf is the open file that a program asks for a lock through, and what it asks for.
func (f *FS) lockOf(in *fuse.LkIn, wait bool) (file *cache.File, r cache.LockRequest, st fuse.Status) {
	if file, st = f.files.get(in.Fh); !st.Ok() {
		return nil, r, st
	}
	r, ok := lockRequest(in, wait)
	if !ok {
		return nil, r, fuse.EINVAL
	}
	return file, r, fuse.OK
}

// GetLk says which lock conflicts with one (F_GETLK).
func (f *FS) GetLk(cancel <-chan struct{}, in *fuse.LkIn, out *fuse.LkOut) fuse.Status {
	file, r, st := f.lockOf(in, false)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	held, pid, err := file.TestLock(ctx, r)
	if err != nil {
		return errno(err)
	}
	out.Lk = fuse.FileLock{Typ: syscall.F_UNLCK}
	if held == nil {
		return fuse.OK
	}
	out.Lk = fuse.FileLock{Start: held.First, End: min(held.Last, lastOffset), Typ: syscall.F_RDLCK, Pid: pid}
	if held.Type == nfsclient.WriteLock {
		out.Lk.Typ = syscall.F_WRLCK
	}
	return fuse.OK
}

// SetLk takes a lock, or gives it up, without waiting for other owners.
func (f *FS) SetLk(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	file, r, st := f.lockOf(in, false)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	return errno(file.SetLock(ctx, r))
}

// SetLkw is SetLk that waits. As with local locks any signal ends the wait: the
// kernel makes EINTR of it, or repeats the call if the signal's handler allows that.
func (f *FS) SetLkw(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	file, r, st := f.lockOf(in, true)
	if !st.Ok() {
		return st
	}
	ctx, end := f.beginWait(cancel, in.Pid)
	defer end()
	err := file.SetLock(ctx, r)
	if err != nil && f.ctx.Err() != nil {
		return errno(errAborted)
	}
	return errno(err)
}

// beginWait is the context of a request that any signal to its thread ends. end
// must be called when the request has been answered.
func (f *FS) beginWait(cancel <-chan struct{}, tid uint32) (ctx context.Context, end func()) {
	ctx, stop := context.WithCancel(f.ctx)
	var joined sync.WaitGroup
	joined.Go(func() { f.runSignalled(ctx, cancel, stop, tid) })
	return ctx, func() {
		stop()
		joined.Wait()
	}
}

// runSignalled ends a wait when the kernel has sent an interrupt. Where those may be
// lost (loseInterrupts) it also looks now and then whether a signal is pending.
func (f *FS) runSignalled(ctx context.Context, cancel <-chan struct{}, stop func(), tid uint32) {
	var look <-chan time.Time
	if f.over == OverRing {
		tick := time.NewTicker(killPollInterval)
		defer tick.Stop()
		look = tick.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-cancel:
			stop()
			return
		case <-look:
			if signalled(tid) {
				stop()
				return
			}
		}
	}
}

// signalled reports whether a signal that it does not block is pending for a
// thread.
func signalled(tid uint32) bool {
	var p procStatus
	if tid == 0 || p.read(tid) != nil {
		return false
	}
	defer p.free()
	mask := func(field string) uint64 {
		n, err := strconv.ParseUint(string(p.field(field)), 16, 64)
		if err != nil {
			return 0
		}
		return n
	}
	return (mask("SigPnd:")|mask("ShdPnd:"))&^mask("SigBlk:") != 0
}
