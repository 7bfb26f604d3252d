package nfs3

import (
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
)

// newFile is the attributes of a file made now by a server whose clock is an hour ahead.
func newFile() wire.Attr {
	a := fileAttr
	a.Size, a.Ctime = 0, wire.TimeOf(time.Now().Add(time.Hour))
	return a
}

// proving is the script of an exclusive CREATE whose SETATTR brings a mark, which the server
// keeps as keep says.
func proving(keep func(wire.Time) wire.Time) []step {
	file, set := newFile(), &wire.SetAttrArgs{}
	after := &wire.WccRes{Wcc: wire.Wcc{After: wire.PostAttr{Set: true, Attr: file}}}
	return []step{
		nfsStep(wire.ProcCreate, &wire.MadeRes{Handle: newHandle, Attr: wire.PostAttr{Set: true, Attr: file}}),
		nfsStep(wire.ProcSetAttr, after).with(set, func(t *testing.T) {
			if set.Attr.Atime.How != nfsclient.TimeClient || set.Attr.Mtime.How != nfsclient.TimeServer {
				t.Errorf("SETATTR of %+v", set.Attr)
			}
			after.Wcc.After.Attr.Atime = keep(set.Attr.Atime.T)
		}),
	}
}

func asIs(t wire.Time) wire.Time { return t }

// marked is a step that checks that a CREATE is guarded and marked, and hands on the mark.
func marked(res *wire.MadeRes, then func(mark wire.Time)) step {
	args := &wire.CreateArgs{}
	return nfsStep(wire.ProcCreate, res).with(args, func(t *testing.T) {
		at := args.Attr.Atime
		if args.Mode != wire.Guarded || at.How != nfsclient.TimeClient || args.Attr.Mtime.How != nfsclient.TimeKeep || args.Attr.Mode.V != 0o644 {
			t.Errorf("%+v", args)
		}
		if off := time.Until(at.T.Time()) - time.Hour; off.Abs() > time.Minute {
			t.Errorf("the mark is %v off the server's clock", off)
		}
		then(at.T)
	})
}

// exclusiveStep is a step that checks that a CREATE is an exclusive one.
func exclusiveStep(res *wire.MadeRes) step {
	args := &wire.CreateArgs{}
	return nfsStep(wire.ProcCreate, res).with(args, func(t *testing.T) {
		if args.Mode != wire.Exclusive {
			t.Errorf("%+v", args)
		}
	})
}

// exclusiveFile makes a file that must not exist.
func (c *Client) exclusiveFile(t *testing.T, cr nfsclient.Cred) (nfsclient.Made, error) {
	return c.Create(t.Context(), cr, "d", "f", nfsclient.SetAttr{Mode: &mode644}, true, 0)
}

// TestCreateMarked: when a file of the user's has kept a mark, the next one is made by one
// call, with a mark of its own.
func TestCreateMarked(t *testing.T) {
	c, nfs, _, _ := mounted(t)
	nfs.expect(proving(asIs)...)
	if _, err := c.exclusiveFile(t, cred); err != nil {
		t.Fatal(err)
	}
	var seen [2]wire.Time
	for k := range seen {
		res := &wire.MadeRes{Handle: newHandle, Attr: wire.PostAttr{Set: true, Attr: newFile()}, Dir: wire.Wcc{After: dirPost}}
		nfs.expect(marked(res, func(mark wire.Time) { seen[k], res.Attr.Attr.Atime = mark, mark }))
		if m, err := c.exclusiveFile(t, cred); err != nil || m.Handle != "new" || !m.Dir.After.Set {
			t.Errorf("%+v, %v", m, err)
		}
	}
	if seen[0] == seen[1] {
		t.Error("two files with the same mark")
	}
	// Another user has yet to prove that his files keep it.
	nfs.expect(proving(asIs)...)
	if _, err := c.exclusiveFile(t, nfsclient.Cred{UID: cred.UID + 1}); err != nil {
		t.Error(err)
	}
	// Who gives a time has it.
	nfs.expect(exclusiveStep(&wire.MadeRes{Status: nfsclient.ErrExist}))
	_, err := c.Create(t.Context(), cred, "d", "f", nfsclient.SetAttr{SetAtime: nfsclient.TimeClient, Atime: time.Unix(1, 0)}, true, 0)
	wantStatus(t, err, nfsclient.ErrExist)
}

// TestMarkedIsRecognized: a CREATE that finds the name taken has failed, unless it was
// resent and the file there has its mark.
func TestMarkedIsRecognized(t *testing.T) {
	var mark wire.Time
	taken := func(resent bool) step {
		s := marked(&wire.MadeRes{Status: nfsclient.ErrExist, Dir: wire.Wcc{After: dirPost}}, func(m wire.Time) { mark = m })
		s.resent = resent
		return s
	}
	// found is a LOOKUP of a file with an access time that is made of the mark.
	found := func(kind nfsclient.FileType, atime func(wire.Time) wire.Time) step {
		args, res := &wire.DirOp{}, &wire.LookupRes{Handle: "found", Attr: filePost}
		return nfsStep(wire.ProcLookup, res).with(args, func(t *testing.T) {
			if *args != (wire.DirOp{Dir: "d", Name: "f"}) {
				t.Errorf("LOOKUP of %+v", args)
			}
			res.Attr.Attr.Type, res.Attr.Attr.Atime = kind, atime(mark)
		})
	}
	other := func(m wire.Time) wire.Time { m.Nsec ^= 1; return m }
	for _, r := range []struct {
		name   string
		script []step
		ours   bool
	}{
		{"sent once", []step{taken(false)}, false},
		{"ours", []step{taken(true), found(nfsclient.Regular, asIs)}, true},
		{"another's", []step{taken(true), found(nfsclient.Regular, other)}, false},
		{"no file", []step{taken(true), found(nfsclient.Directory, asIs)}, false},
		{"gone", []step{taken(true), nfsStep(wire.ProcLookup, &wire.LookupRes{Status: nfsclient.ErrNoEnt})}, false},
	} {
		t.Run(r.name, func(t *testing.T) {
			c, nfs, _, _ := mounted(t)
			nfs.expect(append(proving(asIs), r.script...)...)
			if _, err := c.exclusiveFile(t, cred); err != nil {
				t.Fatal(err)
			}
			m, err := c.exclusiveFile(t, cred)
			if r.ours {
				if err != nil || m.Handle != "found" || m.Attr.FileID != 2 || !m.Late {
					t.Errorf("%+v, %v", m, err)
				}
				return
			}
			wantStatus(t, err, nfsclient.ErrExist)
			if !m.Dir.After.Set {
				t.Errorf("%+v", m)
			}
		})
	}
}

// TestMarksRefused: a server that does not keep a mark exactly, or lets no time be set,
// gets no other.
func TestMarksRefused(t *testing.T) {
	plain := func(set *wire.SetAttrArgs) step {
		return nfsStep(wire.ProcSetAttr, &wire.WccRes{Wcc: wire.Wcc{After: filePost}}).with(set, func(t *testing.T) {
			if set.Attr.Atime.How != nfsclient.TimeServer {
				t.Errorf("SETATTR of %+v", set.Attr)
			}
		})
	}
	file := wire.PostAttr{Set: true, Attr: newFile()}
	for name, first := range map[string][]step{
		"cut to seconds": proving(func(m wire.Time) wire.Time { return wire.Time{Sec: m.Sec} }),
		"not the owner": {
			nfsStep(wire.ProcCreate, &wire.MadeRes{Handle: newHandle, Attr: file}),
			nfsStep(wire.ProcSetAttr, &wire.WccRes{Status: nfsclient.ErrPerm}), plain(&wire.SetAttrArgs{})},
		"not the owner in another file system": append(proving(asIs),
			marked(&wire.MadeRes{Status: nfsclient.ErrPerm}, func(wire.Time) {}),
			exclusiveStep(&wire.MadeRes{Handle: newHandle, Attr: filePost}),
			nfsStep(wire.ProcSetAttr, &wire.WccRes{Status: nfsclient.ErrPerm}), plain(&wire.SetAttrArgs{})),
	} {
		t.Run(name, func(t *testing.T) {
			c, nfs, _, _ := mounted(t)
			nfs.expect(first...)
			for len(nfs.script) > 0 {
				if _, err := c.exclusiveFile(t, cred); err != nil {
					t.Fatal(err)
				}
			}
			nfs.expect(exclusiveStep(&wire.MadeRes{Handle: newHandle, Attr: file}), plain(&wire.SetAttrArgs{}))
			if _, err := c.exclusiveFile(t, cred); err != nil {
				t.Error(err)
			}
		})
	}
}
