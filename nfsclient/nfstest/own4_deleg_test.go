package nfstest

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/script"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// delegating4 runs f with two clients that can be called back, of each minor version and over both transports, on an
// own server that gives delegations.
func delegating4(t *testing.T, cfg nfsd.Config, f func(o *own4, a, b *user4)) {
	eachMinor(t, func(t *testing.T, minor uint32) {
		for name, connect := range map[string]func(*testing.T, netip.AddrPort) (transport.Caller, *backChannel){"tcp": backTCP, "rdma": backRDMA} {
			t.Run(name, func(t *testing.T) {
				o := &own4{T: t, script: script.New(), minor: minor}
				cfg := cfg
				cfg.Delegations, cfg.Wrap, cfg.Faults = true, o.script.Wrap, &nfsd.Faults{Operation: o.script.Operation}
				var dev verbs.Device
				if name == "rdma" {
					d := iwarp.Open(iwarp.Config{})
					t.Cleanup(func() {
						if err := d.Close(); err != nil {
							t.Error(err)
						}
					})
					dev = d
				}
				s, at, viaRDMA := serveConfig4(t, dev, nfsd.Export{}, cfg)
				if dev != nil {
					at = viaRDMA
				}
				o.s = s
				o.script.Attach(s)
				user := func() *user4 {
					nfs, back := connect(t, at)
					return newBackUser4(t, nfs, back, minor, "/below/export")
				}
				f(o, user(), user())
			})
		}
	})
}

// appended changes a file as another client.
func (u *user4) appended(ctx context.Context, name, more string) error {
	f, err := u.c.Lookup(ctx, nfsclient.Cred{}, u.root, name)
	if err != nil {
		return err
	}
	o, err := u.c.OpenFile(ctx, nfsclient.Cred{}, f.Handle, nfsclient.OpenWrite)
	if err != nil {
		return err
	}
	a, err := u.c.GetAttr(ctx, nfsclient.Cred{}, f.Handle)
	if err != nil {
		return err
	}
	u.write(f.Handle, o.State, a.Size, more)
	return u.c.CloseFile(ctx, nfsclient.Cred{}, f.Handle, o.State)
}

// TestNFSD4Delegations is what the tests against other servers have, and the failures that the own one can be told.
func TestNFSD4Delegations(t *testing.T) {
	delegating4(t, nfsd.Config{}, func(o *own4, a, b *user4) {
		if !delegations4(a, b.appended) {
			o.Error("no delegation was given")
		}
		if notified4(a, b) == 0 {
			o.Error("the server has not called back for a lock")
		}
	})
}

// TestNFSD4DelegationCut: the server finds its way back to a client whose connection was lost.
func TestNFSD4DelegationCut(t *testing.T) {
	delegating4(t, nfsd.Config{}, func(o *own4, a, b *user4) {
		h := a.made("cut", "before")
		if !a.held(h) {
			o.Fatal("no delegation was given")
		}
		st := a.open(h, nfsclient.OpenRead)
		<-o.s.Cut()
		if got := a.read(h, st, 100); got != "before" { // the first call over the new connection
			o.Errorf("%q", got)
		}
		o.limited("recall", func() { o.must4(b.appended(o.Context(), a.name("cut"), " and after")) })
		if got := a.read(h, st, 100); got != "before and after" || a.lost.recalls(h) != 1 {
			o.Errorf("%q, recalled %d times", got, a.lost.recalls(h))
		}
		a.close(h, st)
	})
}

func (o *own4) must4(err error) {
	o.Helper()
	if err != nil {
		o.Fatal(err)
	}
}

// TestNFSD4DelegationRestart: in a grace period the delegation of an open file is reclaimed; without, none is believed.
func TestNFSD4DelegationRestart(t *testing.T) {
	delegating4(t, nfsd.Config{}, func(o *own4, a, b *user4) {
		for _, grace := range []bool{true, false} {
			name := fmt.Sprintf("restart-%v", grace)
			h := a.made(name, "before")
			if !a.held(h) {
				o.Fatal("no delegation was given")
			}
			st := a.open(h, nfsclient.OpenRead)
			o.script.Restart(grace)
			if got := a.read(h, st, 100); got != "before" {
				o.Errorf("%q", got)
			}
			if grace {
				a.attr(h)
				if n := a.reopened(h); n != 0 {
					o.Errorf("not reclaimed: %d calls", n)
				}
				o.s.State().EndGrace()
			}
			o.limited("change", func() { o.must4(b.appended(o.Context(), a.name(name), " and after")) })
			if size := a.attr(h).Size; size != 16 {
				o.Errorf("%d bytes (grace: %v)", size, grace)
			}
			if got := a.read(h, st, 100); got != "before and after" {
				o.Errorf("%q (grace: %v)", got, grace)
			}
			a.close(h, st)
		}
	})
}

// TestNFSD4DelegationExpired: a client that the server has forgotten believes nothing that it was promised.
func TestNFSD4DelegationExpired(t *testing.T) {
	delegating4(t, nfsd.Config{}, func(o *own4, a, b *user4) {
		h := a.made("expired", "before")
		if !a.held(h) {
			o.Fatal("no delegation was given")
		}
		st := a.open(h, nfsclient.OpenRead)
		o.script.Expire()
		o.limited("change", func() { o.must4(b.appended(o.Context(), a.name("expired"), " and after")) })
		if got := a.read(h, st, 100); got != "before and after" { // the first that it hears of the server
			o.Errorf("%q", got)
		}
		if size := a.attr(h).Size; size != 16 {
			o.Errorf("%d bytes", size)
		}
		a.close(h, st)
	})
}

// TestNFSD4DelegationRepliesLost: what returns a delegation is carried out once, whatever is lost on the way.
func TestNFSD4DelegationRepliesLost(t *testing.T) {
	delegating4(t, nfsd.Config{}, func(o *own4, a, b *user4) {
		for _, op := range []wire.Op{wire.OpOpen, wire.OpDelegReturn} {
			for what, lose := range map[string]func(wire.Op, int){"call": o.script.LoseCall, "reply": o.script.LoseReply} {
				name := fmt.Sprintf("lost-%s-%v", what, op)
				h := a.made(name, "before")
				if !a.held(h) {
					o.Fatal("no delegation was given")
				}
				st := a.open(h, nfsclient.OpenRead)
				lose(op, 1) // OPEN is that of the change
				o.limited(name, func() { o.must4(b.appended(o.Context(), a.name(name), " and after")) })
				if got := a.read(h, st, 100); got != "before and after" {
					o.Errorf("%s: %q", name, got)
				}
				a.close(h, st)
			}
		}
	})
}

// TestNFSD4DelegationCoherence: whoever looks after a change has ended sees it, while files are opened, read, changed and recalled
// from both sides and connections are lost. Nothing waits for ever.
func TestNFSD4DelegationCoherence(t *testing.T) {
	delegating4(t, nfsd.Config{}, func(o *own4, a, b *user4) {
		ctx, cancel := context.WithTimeout(o.Context(), time.Minute)
		defer cancel()
		const files, rounds = 4, 40
		var wg sync.WaitGroup
		for n := range files {
			h := a.made(fmt.Sprintf("file-%d", n), "x")
			name := a.name(fmt.Sprintf("file-%d", n))
			var size sync.Mutex // of the file: who looks waits for who changes
			want := uint64(1)
			wg.Go(func() { // changes from the other side, and now and then from this one
				for i := range rounds {
					size.Lock()
					var err error
					if i%8 == 7 {
						s := want + 1
						_, err = a.c.SetAttr(ctx, nfsclient.Cred{}, h, nil, nfsclient.SetAttr{Size: &s})
					} else {
						s := want + 1
						_, err = b.c.SetAttr(ctx, nfsclient.Cred{}, h, nil, nfsclient.SetAttr{Size: &s})
					}
					want++
					size.Unlock()
					if err != nil {
						o.Errorf("%s: %v", name, err)
						return
					}
					if n == 0 && i%16 == 15 {
						<-o.s.Cut()
					}
				}
			})
			wg.Go(func() {
				for range rounds * 4 {
					op, err := a.c.OpenFile(ctx, nfsclient.Cred{}, h, nfsclient.OpenRead)
					if err != nil {
						o.Errorf("%s: %v", name, err)
						return
					}
					size.Lock()
					got, err := a.c.GetAttr(ctx, nfsclient.Cred{}, h)
					if err != nil || got.Size != want {
						o.Errorf("%s: %d bytes instead of %d, %v", name, got.Size, want, err)
					}
					size.Unlock()
					if err := a.c.CloseFile(ctx, nfsclient.Cred{}, h, op.State); err != nil {
						o.Errorf("%s: %v", name, err)
					}
				}
			})
		}
		wg.Wait()
		if strings.HasSuffix(o.Name(), "tcp") && a.calls.Stats().Callbacks == 0 {
			o.Error("nothing was recalled")
		}
	})
}
