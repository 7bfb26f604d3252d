package nlm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	nlmwire "github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/rpcbindtest"
)

// callingRig is a rig whose server calls back, and this host's rpcbind, which the server
// asks.
type callingRig struct {
	*rig
	b *rpcbindtest.Rpcbind
}

func newCallingRig(t *testing.T, f ...func(*nfsd.Config)) *callingRig {
	b := rpcbindtest.Start(t, "127.0.0.1:0")
	call := func(cfg *nfsd.Config) {
		cfg.Callbacks = &nfsd.Callbacks{Port: func(_ context.Context, _ netip.Addr, prog uint32, network string) (uint16, error) {
			return registered(b, prog, network)
		}}
	}
	return &callingRig{newRig(t, append([]func(*nfsd.Config){call}, f...)...), b}
}

// registered is the port of a program.
func registered(b *rpcbindtest.Rpcbind, prog uint32, network string) (uint16, error) {
	for _, e := range b.List() {
		if e.Program == prog && e.NetID == network {
			p := strings.Split(e.Addr, ".")
			hi, errHi := strconv.Atoi(p[len(p)-2])
			lo, errLo := strconv.Atoi(p[len(p)-1])
			return uint16(hi<<8 | lo), errors.Join(errHi, errLo)
		}
	}
	return 0, fmt.Errorf("program %d over %s: not registered", prog, network)
}

// hearing is a client that callbacks reach. Once the server has called, it polls so
// seldom that only the call can wake it.
func (r *callingRig) hearing(f ...func(*Config)) *Client {
	r.t.Helper()
	c := r.client(append([]func(*Config){func(cf *Config) { cf.Rpcbind, cf.blockedPause = r.b.Addr, time.Hour }}, f...)...)
	c.attend()
	r.await("callbacks", c.mayBlock)
	return c
}

// called has c's server call it back once, so that c relies on that.
func (r *callingRig) called(c, other *Client) {
	r.t.Helper()
	for n := 0; c.LockWait() != "granted"; n++ {
		if n == 1000 {
			r.t.Fatal("never called back")
		}
		r.must(r.set(other, 99, wr, 5000, 5000))
		done := r.waiting(c, 98, 5000, 5000)
		r.must(r.set(other, 99, un, 5000, 5000))
		r.must(<-done)
		r.must(r.set(c, 98, un, 5000, 5000))
	}
}

// waiting starts to wait, and returns when the server has the lock queued.
func (r *callingRig) waiting(c *Client, owner nfsclient.LockOwner, first, last uint64) <-chan error {
	r.t.Helper()
	before := r.s.LocksWaiting()
	done := make(chan error, 1)
	go func() { done <- r.wait(context.Background(), c, owner, wr, first, last) }()
	r.await("queued", func() bool { return r.s.LocksWaiting() == before+1 })
	return done
}

// Those who wait get the lock in the order in which they came, each by one call of the
// server, and with two LOCKs.
func TestGranted(t *testing.T) {
	for _, sync := range []bool{false, true} {
		t.Run(fmt.Sprint("sync ", sync), func(t *testing.T) {
			r := newCallingRig(t, func(cfg *nfsd.Config) { cfg.Callbacks.Sync = sync })
			a, c := r.client(), r.hearing()
			if c.LockWait() != "polling" {
				t.Error("relies on a server that has never called back")
			}
			r.called(c, a)
			r.must(r.set(a, 1, wr, 0, whole))
			before := r.s.Stats().Locks["LOCK"]
			const waiters = 5
			var dones []<-chan error
			for n := range waiters {
				dones = append(dones, r.waiting(c, nfsclient.LockOwner(n), 0, whole))
			}
			r.must(r.set(a, 1, un, 0, whole))
			for n, done := range dones {
				if err := <-done; err != nil {
					t.Fatalf("waiter %d: %v", n, err)
				}
				r.must(r.set(c, nfsclient.LockOwner(n), un, 0, whole))
			}
			if n := r.s.Stats().Locks["LOCK"] - before; n != 2*waiters {
				t.Errorf("%d LOCKs for %d waiters", n, waiters)
			}
			if n := r.s.Locks(); n != 0 {
				t.Errorf("%d ranges left", n)
			}
			if c.LockWait() != "granted" {
				t.Error("does not rely on the callbacks any more")
			}
		})
	}
}

// Who gives up is taken out of the server's queue, and a lock that was granted to nobody
// goes to the next.
func TestGivenUpWhileQueued(t *testing.T) {
	r := newCallingRig(t)
	a, c := r.client(), r.hearing()
	r.called(c, a)
	r.must(r.set(a, 1, wr, 0, whole))
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- r.wait(ctx, c, 1, wr, 0, whole) }()
	r.await("queued", func() bool { return r.s.LocksWaiting() == 1 })
	second := r.waiting(c, 2, 0, whole)
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r.await("CANCEL", func() bool { return r.s.LocksWaiting() == 1 && r.s.Stats().Locks["CANCEL"] > 0 })
	r.must(r.set(a, 1, un, 0, whole))
	r.must(<-second)
	r.must(r.set(c, 2, un, 0, whole))
	r.settled(c)
	if n := r.s.Locks(); n != 0 {
		t.Errorf("%d ranges left", n)
	}
}

// A signal while the LOCK is at the server, which queues it: it is taken out again.
func TestGivenUpWhileAsking(t *testing.T) {
	var late lateLock
	r := newCallingRig(t, late.answers())
	a, c := r.client(), r.hearing()
	r.must(r.set(a, 1, wr, 0, whole))
	late.hold.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.wait(ctx, c, 1, wr, 0, whole) }()
	<-late.arrived
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n := r.s.LocksWaiting(); n != 1 {
		t.Errorf("%d wait at the server", n)
	}
	close(late.stop)
	r.settled(c)
	if n := r.s.LocksWaiting(); n != 0 || r.s.Stats().Locks["CANCEL"] == 0 {
		t.Errorf("%d still wait at the server", n)
	}
}

// A GRANTED for what nobody waits for, or holds, is denied: the server gives the lock to
// others. That of a lock that polling has got is not.
func TestGrantedToNobody(t *testing.T) {
	r := newCallingRig(t)
	c := r.hearing()
	r.must(r.set(c, 1, wr, 10, 19))
	c.mu.Lock()
	h := c.holders[key{r.file, 1}]
	c.mu.Unlock()
	good := nlmwire.TestArgs{Exclusive: true, Lock: c.wireLock(h, 10, 19)}
	if !(*heard)(c).Granted(&good) {
		t.Error("what is held is denied")
	}
	for name, change := range map[string]func(*nlmwire.TestArgs){
		"another file":   func(a *nlmwire.TestArgs) { a.Lock.Handle += "x" },
		"another owner":  func(a *nlmwire.TestArgs) { a.Lock.SVID++ },
		"another handle": func(a *nlmwire.TestArgs) { a.Lock.OH = "" },
		"more":           func(a *nlmwire.TestArgs) { a.Lock.Length++ },
		"to the end":     func(a *nlmwire.TestArgs) { a.Lock.Length = 0 },
		"wrapped":        func(a *nlmwire.TestArgs) { a.Lock.Length = ^uint64(0) },
	} {
		a := good
		if change(&a); (*heard)(c).Granted(&a) {
			t.Errorf("%s: granted", name)
		}
	}
	r.must(r.set(c, 1, rd, 10, 19))
	if (*heard)(c).Granted(&good) {
		t.Error("for writing: granted to who reads")
	}
	r.must(r.set(c, 1, un, 10, 19))
	if (*heard)(c).Granted(&good) {
		t.Error("given back, and granted")
	}
}

// The server has granted a lock to a waiter that has gone meanwhile: it is free again.
func TestGrantAgainstCancel(t *testing.T) {
	hold, arrived := make(chan struct{}), make(chan struct{}, 1)
	var armed atomic.Bool
	r := newCallingRig(t, func(cfg *nfsd.Config) {
		port := cfg.Callbacks.Port
		cfg.Callbacks.Port = func(ctx context.Context, at netip.Addr, prog uint32, network string) (uint16, error) {
			if armed.CompareAndSwap(true, false) {
				arrived <- struct{}{}
				<-hold
			}
			return port(ctx, at, prog, network)
		}
	})
	a, b, c := r.client(), r.client(), r.hearing()
	r.called(c, a)
	r.must(r.set(a, 1, wr, 0, whole))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.wait(ctx, c, 1, wr, 0, whole) }()
	r.await("queued", func() bool { return r.s.LocksWaiting() == 1 })
	armed.Store(true)
	r.must(r.set(a, 1, un, 0, whole))
	<-arrived // the server holds it for c, which is yet to be told
	r.denied(r.set(b, 1, wr, 0, 0))
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(hold)
	r.must(r.wait(t.Context(), b, 1, wr, 0, whole))
	r.settled(c)
}

// A server that has called back and does so no more is polled again, and where another
// program has taken the callbacks over, nothing is queued any more.
func TestCallbacksTakenOver(t *testing.T) {
	r := newCallingRig(t)
	a := r.client()
	c := r.hearing(func(cf *Config) { cf.blockedPause = 50 * time.Millisecond })
	r.called(c, a)
	r.must(r.set(a, 1, wr, 0, whole))
	done := r.waiting(c, 1, 0, whole)
	r.b.Replace(nlmwire.Program, "0.0.0.0.0.1")
	r.must(r.set(a, 1, un, 0, whole))
	r.must(<-done)
	r.await("polling", func() bool { return c.LockWait() == "polling" && !c.mayBlock() })
	r.must(r.set(c, 1, un, 0, whole))
	r.await("only what is the other program's to be left", func() bool {
		list := r.b.List()
		return len(list) == 2 && list[0].Program == nlmwire.Program && list[1].Program == nlmwire.Program
	})
}

// Deadlocks over two mounts are the server's to see.
func TestDeadlockBetweenMounts(t *testing.T) {
	r := newCallingRig(t)
	b2 := rpcbindtest.Start(t, "127.0.0.1:0")
	a, c := r.hearing(), r.client(func(cf *Config) { cf.Rpcbind = b2.Addr })
	c.attend()
	r.await("callbacks", c.mayBlock)
	r.must(r.set(a, 1, wr, 0, 0))
	r.must(r.set(c, 1, wr, 1, 1))
	done := r.waiting(a, 1, 1, 1)
	err := r.wait(t.Context(), c, 1, wr, 0, 0)
	if nfsclient.Errno(err) != syscall.EDEADLK {
		t.Errorf("%v, want EDEADLK", err)
	}
	r.must(r.set(c, 1, un, 1, 1))
	r.must(<-done)
}

// A second mount of the host polls, and takes nothing from the first.
func TestSecondMountPolls(t *testing.T) {
	r := newCallingRig(t)
	c := r.hearing()
	before := r.b.List()
	d := r.client(func(cf *Config) { cf.Rpcbind = r.b.Addr })
	r.must(r.set(d, 1, wr, 0, 9))
	r.await("the log", func() bool { return strings.Contains(r.log.String(), "lock_wait polling") })
	done := make(chan error, 1)
	go func() { done <- r.wait(t.Context(), d, 2, wr, 0, 9) }()
	r.must(r.set(d, 1, un, 0, 9))
	r.must(<-done)
	if d.mayBlock() || !c.mayBlock() || len(before) != 4 {
		t.Errorf("%d registrations", len(before))
	}
}

// Without leave to register there is only polling.
func TestRpcbindRefuses(t *testing.T) {
	r := newCallingRig(t)
	r.b.Refuse()
	d := r.client(func(cf *Config) { cf.Rpcbind = r.b.Addr })
	r.must(r.set(d, 1, wr, 0, 9))
	r.await("the log", func() bool { return strings.Contains(r.log.String(), "rpcbind refuses") })
	if len(r.b.List()) != 0 || d.LockWait() != "polling" {
		t.Errorf("%v", r.b.List())
	}
}

// Close takes the queue's entries and the registrations along.
func TestCloseWhileQueued(t *testing.T) {
	r := newCallingRig(t)
	a := r.client()
	c := r.open(func(cf *Config) { cf.Rpcbind = r.b.Addr })
	c.attend()
	r.await("callbacks", c.mayBlock)
	r.must(r.set(a, 1, wr, 0, whole))
	done := r.waiting(c, 1, 0, whole)
	r.close(c)
	if err := <-done; err == nil {
		t.Error("granted")
	}
	if n := r.s.LocksWaiting(); n != 0 {
		t.Errorf("%d still wait", n)
	}
	if list := r.b.List(); len(list) != 0 {
		t.Errorf("still registered: %v", list)
	}
}

// NSM tells of a restart although no connection is lost. It is believed once for each
// state, and only of a host that is up.
func TestNotified(t *testing.T) {
	r := newCallingRig(t)
	c := r.hearing()
	r.must(r.set(c, 1, wr, 0, 9))
	r.must(r.s.Crash()) // so that the server knows whom to tell
	r.await("the first recovery", func() bool { return strings.Contains(r.log.String(), "1 taken again") })
	recoveries := func() int { return strings.Count(r.log.String(), "1 taken again") }
	before := recoveries()
	r.must(r.s.Notify(t.Context(), "server"))
	r.await("recovery", func() bool { return recoveries() == before+1 })
	r.must(r.s.Notify(t.Context(), "server"))
	if e := c.now(); e == 0 {
		t.Error("no epoch")
	}
	epoch := c.now()
	(*heard)(c).Notified("server", 4)
	(*heard)(c).Notified("server", 3) // as before
	if c.now() != epoch {
		t.Error("a notice that is none has the locks recovered")
	}
	(*heard)(c).Notified("server\x1b[2J\n", 5)
	if c.now() != epoch+1 {
		t.Error("a notice was not heard")
	}
	if strings.Contains(r.log.String(), "\x1b") {
		t.Error("a name reaches the log as it came")
	}
}

// Who waits when the server restarts is queued there again.
func TestRestartWhileQueued(t *testing.T) {
	r := newCallingRig(t)
	a, c := r.client(), r.hearing()
	r.called(c, a)
	r.must(r.set(a, 1, wr, 0, whole))
	done := r.waiting(c, 1, 0, whole)
	r.must(r.s.Crash())
	(*heard)(c).Notified("server", 1001)
	r.await("queued again, or free", func() bool { return r.s.LocksWaiting() == 1 || r.s.Locks() == 1 })
	r.must(r.set(a, 1, un, 0, whole))
	r.must(<-done)
}

// NFS is called while there are locks, so that its next restart shows as the loss of a
// connection; what did not answer then may have restarted unseen.
func TestProbe(t *testing.T) {
	r := newRig(t)
	var probes atomic.Int32
	var fails atomic.Bool
	fails.Store(true)
	a := r.client(func(cf *Config) {
		cf.heartbeat = time.Millisecond
		cf.Probe = func(context.Context) error {
			probes.Add(1)
			if fails.Load() {
				return syscall.ECONNREFUSED
			}
			return nil
		}
	})
	r.must(r.set(a, 1, wr, 0, 9))
	recoveries := func() int { return strings.Count(r.log.String(), "1 taken again") }
	a.Restarted()
	r.await("recovery", func() bool { return recoveries() == 1 })
	n := probes.Load()
	r.await("probes", func() bool { return probes.Load() > n+3 })
	if got := recoveries(); got != 1 {
		t.Errorf("%d recoveries of a server that is silent", got)
	}
	fails.Store(false)
	r.await("recovery once NFS answers", func() bool { return recoveries() == 2 })
	n = probes.Load()
	r.await("probes", func() bool { return probes.Load() > n+3 })
	if got := recoveries(); got != 2 {
		t.Errorf("%d recoveries of a server that answers", got)
	}
}
