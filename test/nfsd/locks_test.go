package nfsd

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	nlm "github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// locker makes the calls of one lock owner.
type locker struct {
	*client
	h    nfsclient.Handle
	svid int32
}

func (l locker) lockOf(off, n uint64) nlm.Lock {
	return nlm.Lock{Caller: "test", Handle: l.h, OH: "o", SVID: l.svid, Offset: off, Length: n}
}

func (l locker) lock(off, n uint64, exclusive bool, f ...func(*nlm.LockArgs)) nlm.Stat {
	l.t.Helper()
	a := nlm.LockArgs{Cookie: "c", Exclusive: exclusive, Lock: l.lockOf(off, n), State: 1}
	for _, g := range f {
		g(&a)
	}
	var res nlm.Res
	l.program(nlm.Program, nlm.Version, nlm.ProcLock, &a, &res)
	return res.Stat
}

func (l locker) unlock(off, n uint64) nlm.Stat {
	l.t.Helper()
	var res nlm.Res
	l.program(nlm.Program, nlm.Version, nlm.ProcUnlock, &nlm.UnlockArgs{Lock: l.lockOf(off, n)}, &res)
	return res.Stat
}

func (l locker) test(off, n uint64, exclusive bool) nlm.TestRes {
	l.t.Helper()
	var res nlm.TestRes
	l.program(nlm.Program, nlm.Version, nlm.ProcTest, &nlm.TestArgs{Exclusive: exclusive, Lock: l.lockOf(off, n)}, &res)
	return res
}

func reclaim(a *nlm.LockArgs) { a.Reclaim = true }

func (l locker) want(what string, got, want nlm.Stat) {
	l.t.Helper()
	if got != want {
		l.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestLocksExclude(t *testing.T) {
	c := start(t, Export{})
	f := c.mustCreate(c.root, "f")
	a, b := locker{c, f, 7}, locker{c, f, 8}
	a.want("first", a.lock(10, 10, true), nlm.Granted)
	b.want("overlapping", b.lock(19, 1, false), nlm.Denied)
	b.want("beside it", b.lock(20, 0, true), nlm.Granted)
	b.want("blocking", b.lock(0, 0, true, func(a *nlm.LockArgs) { a.Block = true }), nlm.Blocked)
	if r := b.test(0, 0, false); r.Stat != nlm.Denied || r.Holder != (nlm.Holder{Exclusive: true, SVID: 7, Offset: 10, Length: 10}) {
		t.Errorf("TEST: %+v", r)
	}
	if r := a.test(10, 10, true); r.Stat != nlm.Granted {
		t.Errorf("TEST of one's own: %+v", r)
	}
	a.want("split", a.unlock(12, 3), nlm.Granted)
	b.want("in the gap", b.lock(12, 3, true), nlm.Granted)
	if n := c.s.Locks(); n != 4 {
		t.Errorf("%d ranges", n)
	}
	// The owner is the address and the svid: another address is another owner.
	far := *c
	far.peer = "192.0.2.2:700"
	a.want("the same svid elsewhere", locker{&far, f, 7}.lock(10, 1, false), nlm.Denied)
	near := *c
	near.peer = "192.0.2.1:50000"
	a.want("another connection", locker{&near, f, 7}.lock(10, 1, true), nlm.Granted)
	a.want("not held", locker{&far, f, 9}.unlock(0, 0), nlm.Granted)
	a.want("unlocking a directory", locker{c, c.root, 7}.lock(0, 0, true), nlm.Failed)
	a.want("a handle of nothing", locker{c, "nothing", 7}.lock(0, 0, true), nlm.StaleHandle)
	a.want("beyond 2^63", a.lock(1<<63, 1, true), nlm.TooBig)
	a.want("end beyond 2^63", a.lock(1<<62, 1<<63, true), nlm.TooBig)
	var cancelled nlm.Res
	c.program(nlm.Program, nlm.Version, nlm.ProcCancel, &nlm.CancelArgs{Lock: b.lockOf(0, 0)}, &cancelled)
	b.want("CANCEL", cancelled.Stat, nlm.Denied)
	c.program(nlm.Program, nlm.Version, nlm.ProcFreeAll, &nlm.Notify{Name: "whoever"}, &wire.Void{})
	if n := c.s.Locks(); n != 0 {
		t.Errorf("%d ranges after FREE_ALL", n)
	}
	if stat, _ := c.raw(t.Context(), 1, nlm.Program, nlm.Version, nlm.ProcShare, nil); stat != transport.ProcUnavail {
		t.Errorf("SHARE: %v", stat)
	}
}

func TestSecureExportRefusesHighPorts(t *testing.T) {
	c := start(t, Export{Secure: true})
	a := locker{c, c.mustCreate(c.root, "f"), 7}
	a.want("port 700", a.lock(0, 0, true), nlm.Granted)
	high := *c
	high.peer = "192.0.2.1:50000"
	a.want("port 50000", locker{&high, a.h, 7}.lock(0, 0, true), nlm.Failed)
}

// A crash loses the locks; those who held some may reclaim theirs in the grace
// period, in which nothing else is done.
func TestLocksGrace(t *testing.T) {
	c := start(t, Export{}, func(cfg *Config) { cfg.Grace = -1 })
	f := c.mustCreate(c.root, "f")
	a, b := locker{c, f, 7}, locker{c, f, 8}
	far := *c
	far.peer = "192.0.2.2:700"
	a.want("LOCK", a.lock(0, 0, true), nlm.Granted)
	a.want("reclaim at another time", a.lock(0, 0, true, reclaim), nlm.DeniedGracePeriod)
	if err := c.s.Crash(); err != nil {
		t.Fatal(err)
	}
	a.want("LOCK in grace", a.lock(0, 0, true), nlm.DeniedGracePeriod)
	a.want("UNLOCK in grace", a.unlock(0, 0), nlm.DeniedGracePeriod)
	a.want("TEST in grace", a.test(0, 0, true).Stat, nlm.DeniedGracePeriod)
	a.want("reclaim of who held nothing", locker{&far, f, 7}.lock(0, 0, true, reclaim), nlm.DeniedGracePeriod)
	a.want("reclaim", a.lock(0, 0, true, reclaim), nlm.Granted)
	b.want("conflicting reclaim", b.lock(0, 0, true, reclaim), nlm.Denied)
	c.s.EndGrace()
	b.want("LOCK after grace", b.lock(0, 0, true), nlm.Denied)
	a.want("UNLOCK after grace", a.unlock(0, 0), nlm.Granted)
	b.want("LOCK of what is free", b.lock(0, 0, true), nlm.Granted)
}

func TestLockFault(t *testing.T) {
	c := start(t, Export{}, func(cfg *Config) {
		cfg.Faults = &Faults{Lock: func(proc uint32) nlm.Stat {
			if proc == nlm.ProcLock {
				return nlm.DeniedNoLocks
			}
			return nlm.Granted
		}}
	})
	a := locker{c, c.mustCreate(c.root, "f"), 7}
	a.want("LOCK", a.lock(0, 0, true), nlm.DeniedNoLocks)
	a.want("UNLOCK", a.unlock(0, 0), nlm.Granted)
}
