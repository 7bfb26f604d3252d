package nfs3

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
)

var (
	newHandle = wire.PostHandle{Set: true, Handle: "new"}
	mode644   = uint32(0o644)
	size0     = uint64(0)
)

func TestCreateGuarded(t *testing.T) {
	c, nfs, _, _ := mounted(t)
	var args wire.CreateArgs
	nfs.expect(nfsStep(wire.ProcCreate, &wire.MadeRes{Handle: newHandle, Attr: filePost, Dir: wire.Wcc{After: dirPost}}).
		with(&args, func(t *testing.T) {
			if args.Mode != wire.Guarded || args.Where != (wire.DirOp{Dir: "d", Name: "f"}) || args.Attr.Mode.V != 0o644 || !args.Attr.Size.Set {
				t.Errorf("%+v", args)
			}
		}))
	m, err := c.Create(t.Context(), cred, "d", "f", nfsclient.SetAttr{Mode: &mode644, Size: &size0}, false, 0)
	if err != nil || m.Handle != "new" || m.Attr.FileID != 2 || !m.Dir.After.Set {
		t.Errorf("%+v, %v", m, err)
	}
}

// Handle and attributes that the server leaves out are asked for, whatever was
// made.
func TestMadeIsCompleted(t *testing.T) {
	c, nfs, _, _ := mounted(t)
	ctx, s := t.Context(), nfsclient.SetAttr{}
	for proc, f := range map[uint32]func() (nfsclient.Made, error){
		wire.ProcCreate:  func() (nfsclient.Made, error) { return c.Create(ctx, cred, "d", "f", s, false, 0) },
		wire.ProcMkdir:   func() (nfsclient.Made, error) { return c.Mkdir(ctx, cred, "d", "f", s) },
		wire.ProcSymlink: func() (nfsclient.Made, error) { return c.Symlink(ctx, cred, "d", "f", "t", s) },
		wire.ProcMknod: func() (nfsclient.Made, error) {
			return c.Mknod(ctx, cred, "d", "f", nfsclient.FIFO, nfsclient.Device{}, s)
		},
	} {
		var looked wire.DirOp
		var asked wire.HandleArgs
		nfs.expect(nfsStep(proc, &wire.MadeRes{}),
			nfsStep(wire.ProcLookup, &wire.LookupRes{Handle: "found"}).with(&looked, func(t *testing.T) {
				if looked != (wire.DirOp{Dir: "d", Name: "f"}) {
					t.Errorf("LOOKUP of %+v", looked)
				}
			}),
			nfsStep(wire.ProcGetAttr, &wire.GetAttrRes{Attr: fileAttr}).with(&asked, func(t *testing.T) {
				if asked.Handle != "found" {
					t.Errorf("GETATTR of %q", asked.Handle)
				}
			}))
		if m, err := f(); err != nil || m.Handle != "found" || m.Attr.FileID != 2 {
			t.Errorf("procedure %d: %+v, %v", proc, m, err)
		}
		nfs.expect(nfsStep(proc, &wire.MadeRes{Handle: wire.PostHandle{Set: true}}))
		_, err := f()
		wantProtocol(t, err, "empty file handle")
		nfs.expect(nfsStep(proc, &wire.MadeRes{Status: nfsclient.ErrExist, Dir: wire.Wcc{After: dirPost}}))
		m, err := f()
		wantStatus(t, err, nfsclient.ErrExist)
		if !m.Dir.After.Set || m.Handle != "" {
			t.Errorf("procedure %d, with a failure: %+v", proc, m)
		}
	}
}

func TestCreateExclusive(t *testing.T) {
	c, nfs, _, _ := mounted(t)
	var args [2]wire.CreateArgs
	for i := range args {
		var set wire.SetAttrArgs
		nfs.expect(
			nfsStep(wire.ProcCreate, &wire.MadeRes{Handle: newHandle, Attr: filePost, Dir: wire.Wcc{After: dirPost}}).with(&args[i], func(t *testing.T) {
				if args[i].Mode != wire.Exclusive || args[i].Verifier == (nfsclient.Verifier{}) {
					t.Errorf("%+v", args[i])
				}
			}),
			nfsStep(wire.ProcSetAttr, &wire.WccRes{Wcc: wire.Wcc{After: filePost}}).with(&set, func(t *testing.T) {
				// The times hold the verifier until they are set.
				if set.Handle != "new" || set.Attr.Mode != (wire.OptUint32{Set: true, V: 0o644}) ||
					set.Attr.Atime.How != nfsclient.TimeServer || set.Attr.Mtime.How != nfsclient.TimeServer {
					t.Errorf("%+v", set)
				}
			}))
		m, err := c.Create(t.Context(), cred, "d", "f", nfsclient.SetAttr{Mode: &mode644}, true, 0)
		if err != nil || m.Handle != "new" || m.Attr.FileID != 2 || !m.Dir.After.Set {
			t.Errorf("%+v, %v", m, err)
		}
	}
	if args[0].Verifier == args[1].Verifier {
		t.Error("two creates with the same verifier")
	}
}

func TestCreateExclusiveFails(t *testing.T) {
	c, nfs, _, _ := mounted(t)
	nfs.expect(nfsStep(wire.ProcCreate, &wire.MadeRes{Status: nfsclient.ErrExist, Dir: wire.Wcc{After: dirPost}}))
	m, err := c.Create(t.Context(), cred, "d", "f", nfsclient.SetAttr{}, true, 0)
	wantStatus(t, err, nfsclient.ErrExist)
	if !m.Dir.After.Set {
		t.Errorf("%+v", m)
	}
	nfs.expect(nfsStep(wire.ProcCreate, &wire.MadeRes{Handle: newHandle}),
		nfsStep(wire.ProcSetAttr, &wire.WccRes{Status: nfsclient.ErrPerm}))
	_, err = c.Create(t.Context(), cred, "d", "f", nfsclient.SetAttr{}, true, 0)
	wantStatus(t, err, nfsclient.ErrPerm)
}

// A server without exclusive create gets a guarded one, from then on at once.
func TestCreateExclusiveFallsBack(t *testing.T) {
	c, nfs, _, _ := mounted(t)
	var first, second wire.CreateArgs
	guarded := func(args *wire.CreateArgs) func(t *testing.T) {
		return func(t *testing.T) {
			if args.Mode != wire.Guarded || args.Attr.Mode.V != 0o644 {
				t.Errorf("%+v", args)
			}
		}
	}
	ok := &wire.MadeRes{Handle: newHandle, Attr: filePost}
	nfs.expect(nfsStep(wire.ProcCreate, &wire.MadeRes{Status: nfsclient.ErrNotSupp}),
		nfsStep(wire.ProcCreate, ok).with(&first, guarded(&first)),
		nfsStep(wire.ProcCreate, ok).with(&second, guarded(&second)))
	for range 2 {
		if m, err := c.Create(t.Context(), cred, "d", "f", nfsclient.SetAttr{Mode: &mode644}, true, 0); err != nil || m.Handle != "new" {
			t.Errorf("%+v, %v", m, err)
		}
	}
}
