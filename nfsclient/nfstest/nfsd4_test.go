package nfstest

import (
	"context"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// serve4 is serve with version 4.
func serve4(t *testing.T, dev verbs.Device, x nfsd.Export) (s *nfsd.Server, viaTCP, viaRDMA netip.AddrPort) {
	t.Helper()
	return serveConfig4(t, dev, x, nfsd.Config{})
}

// serveConfig4 is serve4 with a configuration that has all but the export and the versions.
func serveConfig4(t *testing.T, dev verbs.Device, x nfsd.Export, cfg nfsd.Config) (s *nfsd.Server, viaTCP, viaRDMA netip.AddrPort) {
	t.Helper()
	x.Dir, x.Path, x.Squash, x.Async = t.TempDir(), "/below/export", nfsd.SquashNone, true
	if err := os.Chmod(x.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	cfg.Exports, cfg.Versions = []nfsd.Export{x}, nfsd.V41|nfsd.V42
	s, err := nfsd.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if viaTCP, err = s.ListenTCP("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if dev != nil {
		if viaRDMA, err = s.ListenRDMA(dev, "127.0.0.1:0", rpcrdma.ServerConfig{Backward: 4}); err != nil {
			t.Fatal(err)
		}
	}
	return s, viaTCP, viaRDMA
}

// eachMinor runs f for each minor version.
func eachMinor(t *testing.T, f func(t *testing.T, minor uint32)) {
	for name, minor := range minors {
		t.Run(name, func(t *testing.T) { f(t, minor) })
	}
}

// TestNFSD4OverTCP is the suite against the own server's version 4, with both kinds of handles, and where
// unstable writes stay in memory.
func TestNFSD4OverTCP(t *testing.T) {
	for name, x := range map[string]nfsd.Export{"plain": {}, "inode handles": {InodeHandles: true}, "lossy": {Lossy: true}} {
		t.Run(name, func(t *testing.T) {
			eachMinor(t, func(t *testing.T, minor uint32) {
				_, at, _ := serve4(t, nil, x)
				RunAs(t, nfsclient.Cred{}, func(t *testing.T) nfsclient.Client {
					return mount4(t, dialHard(t, at), minor, "/below/export")
				})
			})
		})
	}
}

func TestNFSD4OverRDMA(t *testing.T) {
	for name, cfg := range rdmaConfigs {
		t.Run(name, func(t *testing.T) {
			eachMinor(t, func(t *testing.T, minor uint32) {
				dev := iwarp.Open(iwarp.Config{})
				t.Cleanup(func() {
					if err := dev.Close(); err != nil {
						t.Error(err)
					}
				})
				_, _, at := serve4(t, dev, nfsd.Export{})
				cfg := cfg
				cfg.Device, cfg.Addr = dev, at
				RunAs(t, nfsclient.Cred{}, func(t *testing.T) nfsclient.Client {
					var nfs transport.Caller = reconnect.New(rpcrdma.NewDialer(cfg), reconnect.Config{Server: at.String()})
					return mount4(t, nfs, minor, "/below/export")
				})
			})
		})
	}
}

// nfsd4s runs f with two clients of each minor version on a new server.
func nfsd4s(t *testing.T, x nfsd.Export, cfg nfsd.Config, f func(s *nfsd.Server, a, b *user4)) {
	eachMinor(t, func(t *testing.T, minor uint32) {
		s, at, _ := serveConfig4(t, nil, x, cfg)
		a, b := newUser4(t, dialHard(t, at), minor, "/below/export"), newUser4(t, dialHard(t, at), minor, "/below/export")
		f(s, a, b)
	})
}

func TestNFSD4State(t *testing.T) {
	nfsd4s(t, nfsd.Export{}, nfsd.Config{}, func(_ *nfsd.Server, a, b *user4) {
		counted4(a)
		opens4(a, b)
		locks4(a, b)
		modes4(a)
		if strings.HasSuffix(a.Name(), "4.1") {
			only42(a)
			return
		}
		if lacks := ranges42(a); len(lacks) > 0 {
			a.Errorf("lacks %v", lacks)
		}
		if !xattrs42(a) {
			a.Error("no attributes of users")
		}
	})
}

// TestNFSD4Crash: what clients had open and locked outlives a crash of the server if it has a grace
// period. Without, files stay usable, and the owners of locks are told.
func TestNFSD4Crash(t *testing.T) {
	for name, grace := range map[string]time.Duration{"grace": time.Minute, "no grace": 0} {
		t.Run(name, func(t *testing.T) {
			nfsd4s(t, nfsd.Export{Lossy: true}, nfsd.Config{Grace: grace}, func(s *nfsd.Server, a, b *user4) {
				ctx, cancel := context.WithTimeout(a.Context(), time.Minute)
				defer cancel()
				h, st := a.create("locked")
				bst := b.open(h, nfsclient.OpenRead|nfsclient.OpenWrite)
				a.write(h, st, 0, "before")
				a.must(a.set(ctx, h, st, 1, nfsclient.WriteLock, 0, 9))
				a.must(b.set(ctx, h, bst, 1, nfsclient.WriteLock, 30, 39))
				a.must(s.Crash())
				a.write(h, st, 0, "after ")
				b.write(h, bst, 6, "too")
				if got := a.read(h, st, 100); got != "after too" {
					a.Errorf("%q", got)
				}
				kept := !b.free(h, 2, nfsclient.ReadLock, 5, 5)
				if kept != (grace > 0) {
					a.Errorf("the lock is held: %v", kept)
				}
				for grace == 0 && a.lost.of(1) == nil && ctx.Err() == nil {
					time.Sleep(10 * time.Millisecond) // the Watcher is told from another goroutine
				}
				if err := a.lost.of(1); (err == nil) != kept {
					a.Errorf("the owner of the lock was told %v", err)
				}
				a.close(h, st)
				b.close(h, bst)
			})
		})
	}
}
