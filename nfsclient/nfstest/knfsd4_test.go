//go:build knfsd

package nfstest

import (
	"context"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// TestKnfsd4 is the suite against Linux with NFSv4.1 and 4.2, over TCP, and over stock siw in the ways
// that calls can travel.
func TestKnfsd4(t *testing.T) {
	g := knfsd.StartTest(t, knfsd.Config{RDMA: []knfsd.Service{knfsd.SIW}})
	root := nfsclient.Cred{}
	for version, minor := range minors {
		t.Run(version+", tcp", func(t *testing.T) {
			if minor == 1 {
				knfsd.NeedAll(t)
			}
			RunAs(t, root, func(t *testing.T) nfsclient.Client {
				return mount4(t, dialHard(t, g.Addr(knfsd.TCP)), minor, "/export")
			})
		})
		for name, cfg := range rdmaConfigs {
			t.Run(version+", siw, "+name, func(t *testing.T) {
				if minor == 1 || name != "inline 4096" {
					knfsd.NeedAll(t)
				}
				dev := iwarp.Open(iwarp.Config{})
				t.Cleanup(func() {
					if err := dev.Close(); err != nil {
						t.Error(err)
					}
				})
				cfg.Device, cfg.Addr = dev, g.Addr(knfsd.SIW)
				RunAs(t, root, func(t *testing.T) nfsclient.Client {
					return mount4(t, reconnect.New(rpcrdma.NewDialer(cfg), reconnect.Config{Server: cfg.Addr.String()}), minor, "/export")
				})
			})
		}
	}
}

// TestKnfsd4State is openings, locks, holes, copies and extended attributes against Linux, and restarts
// of it: in a grace period all is reclaimed; without one files are opened anew, and the owners of locks
// that were not reclaimed before it ended are told.
func TestKnfsd4State(t *testing.T) {
	g := knfsd.StartTest(t, knfsd.Config{RDMA: []knfsd.Service{}})
	for version, minor := range minors {
		t.Run(version, func(t *testing.T) {
			if minor == 1 {
				knfsd.NeedAll(t)
			}
			a, b := newUser4(t, dialHard(t, g.Addr(knfsd.TCP)), minor, "/export"), newUser4(t, dialHard(t, g.Addr(knfsd.TCP)), minor, "/export")
			t.Run("compounds", func(t *testing.T) { counted4(a.in(t)) })
			t.Run("opens", func(t *testing.T) { opens4(a.in(t), b.in(t)) })
			t.Run("locks", func(t *testing.T) { locks4(a.in(t), b.in(t)) })
			t.Run("modes", func(t *testing.T) { modes4(a.in(t)) })
			t.Run("minor 2", func(t *testing.T) {
				if minor == 1 {
					only42(a.in(t))
					return
				}
				if lacks := ranges42(a.in(t)); len(lacks) > 0 {
					t.Errorf("the server lacks %v", lacks)
				}
				if !xattrs42(a.in(t)) {
					t.Error("the server has no extended attributes")
				}
			})
			t.Run("successor", func(t *testing.T) {
				successor4(t, func() transport.Caller { return dialHard(t, g.Addr(knfsd.TCP)) }, minor, "/export", 15*time.Second)
			})
			t.Run("restart", func(t *testing.T) { restartKnfsd4(g, a.in(t), b.in(t)) })
		})
	}
}

func restartKnfsd4(g *knfsd.Guest, a, b *user4) {
	ctx, cancel := context.WithTimeout(a.Context(), 4*time.Minute)
	defer cancel()
	h, st := a.create("restart")
	a.write(h, st, 0, "before")
	a.must(a.set(ctx, h, st, 1, nfsclient.WriteLock, 0, 9))
	a.must(a.set(ctx, h, st, 1, nfsclient.ReadLock, 20, 29))
	a.must(g.StopServer(ctx))
	a.must(g.StartServerInGrace(ctx))
	a.write(h, st, 0, "after ")
	a.must(g.EndGrace(ctx))
	bst := b.open(h, nfsclient.OpenRead|nfsclient.OpenWrite)
	if b.free(h, 1, nfsclient.ReadLock, 9, 9) || b.free(h, 1, nfsclient.WriteLock, 29, 29) || !b.free(h, 1, nfsclient.WriteLock, 10, 19) {
		a.Errorf("after a restart with grace the locks are not what they were; lost: %v", a.lost.of(1))
	}
	a.must(g.RestartServer(ctx))
	a.write(h, st, 0, "anew  ")
	b.write(h, bst, 6, "too")
	if got := a.read(h, st, 100); got != "anew  too" {
		a.Errorf("%q", got)
	}
	// The grace period has ended at once: the lock was reclaimed before, or it is lost.
	free := b.free(h, 1, nfsclient.WriteLock, 0, toEnd)
	for free && a.lost.of(1) == nil && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond) // the Watcher is told from another goroutine
	}
	if told := a.lost.of(1) != nil; free != told {
		a.Errorf("after a restart without grace the lock is free: %v, its owner was told: %v", free, told)
	}
	a.close(h, st)
	b.close(h, bst)
}

// in is u for a subtest.
func (u *user4) in(t *testing.T) *user4 {
	return &user4{T: t, c: u.c, calls: u.calls, buf: u.buf, root: u.root, lost: u.lost}
}
