package nfs3

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
)

// follower is a Follower of a server that answers MNT once more for each of again, with its own
// time, and what it tells of new roots.
func follower(t *testing.T, again ...wire.MntRes) (f *Follower, nfs *fakeServer, now *time.Time, told *[]nfsclient.Attr) {
	t.Helper()
	nfs = newFake(t, nfsStep(wire.ProcFSInfo, &fsInfo), nfsStep(wire.ProcPathConf, &pathConf))
	mountd := []*fakeServer{mntOK(t)}
	for _, res := range again {
		s := newFake(t, mntStep(&res))
		if res.Status != wire.MountOK {
			s.expect(step{prog: wire.MountProgram, vers: wire.MountVersion, proc: wire.MountExport, reply: &wire.ExportRes{}})
		}
		mountd = append(mountd, s)
	}
	c, err := Mount(t.Context(), config(t, nfs, map[uint16][]*fakeServer{mountPort: append(mountd, umnt(t))}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	f = Follow(c)
	at := time.Unix(1, 0)
	f.now = func() time.Time { return at }
	told = &[]nfsclient.Attr{}
	f.WatchRoot(func(a nfsclient.Attr) { *told = append(*told, a) })
	return f, nfs, &at, told
}

// getAttr is a GETATTR for a handle.
func getAttr(want nfsclient.Handle, res wire.GetAttrRes) step {
	args := &wire.HandleArgs{}
	return nfsStep(wire.ProcGetAttr, &res).with(args, func(t *testing.T) {
		if args.Handle != want {
			t.Errorf("GETATTR of %q, want %q", args.Handle, want)
		}
	})
}

var stale = wire.GetAttrRes{Status: nfsclient.ErrStale}

func TestFollowRoot(t *testing.T) {
	moved := wire.Attr{Type: nfsclient.Directory, FSID: 9, FileID: 2}
	f, nfs, _, told := follower(t, wire.MntRes{Handle: "new"})
	nfs.expect(getAttr("root", stale), getAttr("new", wire.GetAttrRes{Attr: moved}), getAttr("new", wire.GetAttrRes{Attr: moved}),
		getAttr("new", wire.GetAttrRes{Attr: moved}), getAttr("other", stale))
	for range 2 {
		if a, err := f.GetAttr(t.Context(), nfsclient.Cred{}, "root"); err != nil || a.FSID != 9 {
			t.Errorf("%+v, %v", a, err)
		}
	}
	if len(*told) != 1 || (*told)[0].FSID != 9 {
		t.Errorf("told %+v", *told)
	}
	_, err := f.GetAttr(t.Context(), nfsclient.Cred{}, "other")
	wantStatus(t, err, nfsclient.ErrStale)
}

// TestFollowInVain: where mountd has nothing else, mountd is asked once in a while only.
func TestFollowInVain(t *testing.T) {
	for name, c := range map[string]struct {
		res  wire.MntRes
		then []step
	}{
		"same root":       {res: wire.MntRes{Handle: "root"}},
		"not exported":    {res: wire.MntRes{Status: wire.MountErrAccess}},
		"not a directory": {wire.MntRes{Handle: "new"}, []step{getAttr("new", wire.GetAttrRes{Attr: fileAttr})}},
		"stale as well":   {wire.MntRes{Handle: "new"}, []step{getAttr("new", stale)}},
	} {
		t.Run(name, func(t *testing.T) {
			f, nfs, now, told := follower(t, c.res, c.res)
			ask := func() {
				t.Helper()
				_, err := f.GetAttr(t.Context(), nfsclient.Cred{}, "root")
				wantStatus(t, err, nfsclient.ErrStale)
			}
			nfs.expect(getAttr("root", stale))
			nfs.expect(c.then...)
			ask()
			nfs.expect(getAttr("root", stale), getAttr("root", stale)) // once more, as another may have found it
			ask()
			*now = now.Add(reMountInterval)
			nfs.expect(getAttr("root", stale))
			nfs.expect(c.then...)
			ask()
			if len(*told) > 0 {
				t.Errorf("told %+v", *told)
			}
		})
	}
}

// TestFollowTogether: who finds out at the same time waits for one MOUNT.
func TestFollowTogether(t *testing.T) {
	f, nfs, _, told := follower(t, wire.MntRes{Handle: "new"})
	const callers = 4
	nfs.expect(getAttr("new", wire.GetAttrRes{Attr: dirAttr}))
	entered := 0
	for range callers - 1 {
		nfs.expect(getAttr("new", wire.GetAttrRes{Attr: dirAttr}))
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	for range callers {
		all.Go(func() {
			ok := f.reroot(t.Context())
			mu.Lock()
			defer mu.Unlock()
			if ok {
				entered++
			}
		})
	}
	all.Wait()
	if entered != callers || len(*told) != 1 {
		t.Errorf("%d of %d have a root, told %d times", entered, callers, len(*told))
	}
	if f.live("root") != "new" || f.live("file") != "file" {
		t.Error("handles are taken for each other")
	}
}
