//go:build knfsd

package nfstest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/test/knfsd"
)

// TestKnfsd4Delegations is read delegations of Linux, over TCP and over stock siw: opened again without a call, recalled by
// a change of a local process there and of a client of version 3, reclaimed after a restart; and locks of which the server
// tells.
func TestKnfsd4Delegations(t *testing.T) {
	g := knfsd.StartTest(t, knfsd.Config{RDMA: []knfsd.Service{knfsd.SIW}})
	there := func(ctx context.Context, name, more string) error {
		_, err := g.Check(ctx, fmt.Sprintf("printf %%s %q >> %q", more, "/export/"+name))
		return err
	}
	for version, minor := range minors {
		t.Run(version, func(t *testing.T) {
			if minor == 1 {
				knfsd.NeedAll(t)
			}
			for _, proto := range []string{"tcp", "siw"} {
				t.Run(proto, func(t *testing.T) {
					user := func() *user4 {
						nfs, back := backTCP(t, g.Addr(knfsd.TCP))
						if proto == "siw" {
							_ = nfs.Close()
							nfs, back = backRDMA(t, g.Addr(knfsd.SIW))
						}
						return newBackUser4(t, nfs, back, minor, "/export")
					}
					a, b := user(), user()
					t.Run("local change", func(t *testing.T) {
						if !delegations4(a.in(t), there) {
							t.Error("no delegation was given")
						}
					})
					t.Run("version 3", func(t *testing.T) { recalledBy3(g, a.in(t)) })
					t.Run("lock", func(t *testing.T) {
						// Linux 6.12 sends no CB_NOTIFY_LOCK: lock notifications of file systems without a lock
						// operation of their own were off from 6.7 on, and came back with 6.13.
						t.Logf("%d callbacks", notified4(a.in(t), b.in(t)))
					})
					t.Run("restart", func(t *testing.T) { redelegated(g, a.in(t), there) })
				})
			}
		})
	}
}

// recalledBy3 has a client of version 3 change a file.
func recalledBy3(g *knfsd.Guest, u *user4) {
	c, err := dialTCP(u.Context(), g.Addr(knfsd.TCP))
	u.must(err)
	old := mount(u.T, c, g.Addr(knfsd.Mountd))
	defer func() { u.must(old.Close(context.Background())) }()
	h := u.made("three", "before")
	if !u.held(h) {
		u.Fatal("no delegation was given")
	}
	root, _ := old.Root()
	f, err := old.Lookup(u.Context(), nfsclient.Cred{}, root, u.name("three"))
	u.must(err)
	_, err = old.SetAttr(u.Context(), nfsclient.Cred{}, f.Handle, nil, nfsclient.SetAttr{Size: ptr(uint64(3))})
	u.must(err)
	if a := u.attr(h); a.Size != 3 || u.lost.recalls(h) != 1 {
		u.Errorf("%d bytes, recalled %d times", a.Size, u.lost.recalls(h))
	}
}

// redelegated restarts the server: the delegation of a file that is open is reclaimed, and can be recalled after that; that of
// another is given up.
func redelegated(g *knfsd.Guest, u *user4, change func(ctx context.Context, name, more string) error) {
	ctx, cancel := context.WithTimeout(u.Context(), 3*time.Minute)
	defer cancel()
	open, shut := u.made("open", "before"), u.made("shut", "before")
	if !u.held(open) || !u.held(shut) {
		u.Fatal("no delegation was given")
	}
	st := u.open(open, nfsclient.OpenRead)
	also := u.open(open, nfsclient.OpenRead)
	u.must(g.StopServer(ctx))
	u.must(g.StartServerInGrace(ctx))
	if got := u.read(open, st, 100); got != "before" {
		u.Errorf("read in the grace period: %q", got)
	}
	u.must(g.EndGrace(ctx))
	u.attr(open)
	if n := u.reopened(open); n != 0 {
		u.Errorf("the delegation was not reclaimed: %d calls", n)
	}
	if n := u.reopened(shut); n == 0 {
		u.Error("a delegation is used that was not reclaimed")
	}
	u.must(change(ctx, u.name("open"), " and after"))
	for _, s := range []nfsclient.OpenState{st, also} {
		if got := u.read(open, s, 100); got != "before and after" {
			u.Errorf("read after the recall: %q", got)
		}
		u.close(open, s)
	}
}
