package nfs3

import (
	"fmt"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/transport"
)

func TestReadDirPlus(t *testing.T) {
	c, nfs, _, _ := mounted(t)
	var args wire.ReadDirPlusArgs
	nfs.expect(nfsStep(wire.ProcReadDirPlus, &wire.ReadDirRes{Plus: true, Dir: dirPost, Verifier: nfsclient.Verifier{2}, EOF: true,
		Entries: []wire.Entry{
			{FileID: 1, Name: ".", Cookie: 5},
			{FileID: 2, Name: "f", Cookie: 6, Attr: filePost, Handle: wire.PostHandle{Set: true, Handle: "fh"}},
		}}).with(&args, func(t *testing.T) {
		if args != (wire.ReadDirPlusArgs{Dir: "d", Cookie: 4, Verifier: nfsclient.Verifier{1}, DirCount: minReadDir, MaxCount: minReadDir}) {
			t.Errorf("%+v", args)
		}
	}))
	p, err := c.ReadDir(t.Context(), cred, "d", nfsclient.DirPos{Cookie: 4, Verifier: nfsclient.Verifier{1}}, true)
	if err != nil || !p.EOF || p.Verifier != (nfsclient.Verifier{2}) || p.Dir == nil || len(p.Entries) != 2 {
		t.Fatalf("%+v, %v", p, err)
	}
	if e := p.Entries[0]; e.Attr != nil || e.Handle != "" || e.Name != "." || e.Cookie != 5 {
		t.Errorf("%+v", e)
	}
	if e := p.Entries[1]; e.Attr == nil || e.Attr.FileID != 2 || e.Handle != "fh" {
		t.Errorf("%+v", e)
	}
}

func TestReadDirFallsBack(t *testing.T) {
	c, nfs, _, _ := mounted(t)
	var first, second wire.ReadDirArgs
	plain := func(args *wire.ReadDirArgs) func(t *testing.T) {
		return func(t *testing.T) {
			if *args != (wire.ReadDirArgs{Dir: "d", Count: minReadDir}) {
				t.Errorf("%+v", args)
			}
		}
	}
	res := &wire.ReadDirRes{EOF: true, Entries: []wire.Entry{{FileID: 1, Name: "a", Cookie: 1}}}
	nfs.expect(nfsStep(wire.ProcReadDirPlus, &wire.ReadDirRes{Plus: true, Status: nfsclient.ErrNotSupp}),
		nfsStep(wire.ProcReadDir, res).with(&first, plain(&first)), nfsStep(wire.ProcReadDir, res).with(&second, plain(&second)))
	for range 2 {
		if p, err := c.ReadDir(t.Context(), cred, "d", nfsclient.DirPos{}, true); err != nil || len(p.Entries) != 1 {
			t.Errorf("%+v, %v", p, err)
		}
	}
	nfs.expect(nfsStep(wire.ProcReadDir, &wire.ReadDirRes{Status: nfsclient.ErrNotSupp, Dir: dirPost}))
	p, err := c.ReadDir(t.Context(), cred, "d", nfsclient.DirPos{}, false)
	wantStatus(t, err, nfsclient.ErrNotSupp)
	if p.Dir == nil {
		t.Error("no attributes with the failure")
	}
}

// When an entry does not fit, or none comes, more room is given, within bounds.
func TestReadDirGrows(t *testing.T) {
	c, nfs, _, _ := mounted(t)
	for i, res := range []*wire.ReadDirRes{{Status: nfsclient.ErrTooSmall}, {}, {Entries: []wire.Entry{{Name: "a", Cookie: 1}}}} {
		var args wire.ReadDirArgs
		nfs.expect(nfsStep(wire.ProcReadDir, res).with(&args, func(t *testing.T) {
			if args.Count != minReadDir<<i {
				t.Errorf("count %d at try %d", args.Count, i)
			}
		}))
	}
	if p, err := c.ReadDir(t.Context(), cred, "d", nfsclient.DirPos{}, false); err != nil || len(p.Entries) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	for size := minReadDir; size <= growReadDir; size *= 2 {
		nfs.expect(nfsStep(wire.ProcReadDir, &wire.ReadDirRes{}))
	}
	_, err := c.ReadDir(t.Context(), cred, "d", nfsclient.DirPos{}, false)
	wantStatus(t, err, nfsclient.ErrTooSmall)
	nfs.limits = transport.Limits{MaxRecv: minReadDir}
	nfs.expect(nfsStep(wire.ProcReadDir, &wire.ReadDirRes{}))
	_, err = c.ReadDir(t.Context(), cred, "d", nfsclient.DirPos{}, false)
	wantStatus(t, err, nfsclient.ErrTooSmall)
}

func TestReadDirRejects(t *testing.T) {
	c, nfs, _, _ := mounted(t)
	for name, words := range map[string]string{"": "an entry named", "../x": "an entry named", "a\x00b": "an entry named"} {
		nfs.expect(nfsStep(wire.ProcReadDir, &wire.ReadDirRes{EOF: true, Entries: []wire.Entry{{Name: name, Cookie: 1}}}))
		_, err := c.ReadDir(t.Context(), cred, "d", nfsclient.DirPos{}, false)
		wantProtocol(t, err, words)
	}
	nfs.expect(nfsStep(wire.ProcReadDir, &wire.ReadDirRes{Entries: []wire.Entry{{Name: "a", Cookie: 8}, {Name: "b", Cookie: 9}}}))
	_, err := c.ReadDir(t.Context(), cred, "d", nfsclient.DirPos{Cookie: 9}, false)
	wantProtocol(t, err, "the cookie 9 again")
	for _, cookies := range [][]uint64{{0}, {3, 0}, {2, 1, 2}, {1, 2, 1}, {4, 4, 4}, {9, 7, 8, 7}} {
		var l []wire.Entry
		for _, c := range cookies {
			l = append(l, wire.Entry{Name: "a", Cookie: c})
		}
		nfs.expect(nfsStep(wire.ProcReadDir, &wire.ReadDirRes{Entries: l, EOF: true}))
		_, err = c.ReadDir(t.Context(), cred, "d", nfsclient.DirPos{}, false)
		wantProtocol(t, err, "where it cannot be")
	}
	for _, cookies := range [][]uint64{{1, 1, 2}, {2, 1, 1, 3}, {9, 8, 7}} {
		var l []wire.Entry
		for _, c := range cookies {
			l = append(l, wire.Entry{Name: "a", Cookie: c})
		}
		nfs.expect(nfsStep(wire.ProcReadDir, &wire.ReadDirRes{Entries: l}))
		if p, err := c.ReadDir(t.Context(), cred, "d", nfsclient.DirPos{}, false); err != nil || len(p.Entries) != len(cookies) {
			t.Errorf("cookies %d: %v", cookies, err)
		}
	}
	nfs.expect(nfsStep(wire.ProcReadDir, &wire.ReadDirRes{Status: nfsclient.ErrBadCookie}))
	_, err = c.ReadDir(t.Context(), cred, "d", nfsclient.DirPos{Cookie: 9}, false)
	wantStatus(t, err, nfsclient.ErrBadCookie)
}

// TestReadDirPlusAllocates: an entry costs two allocations, its name and its handle.
func TestReadDirPlusAllocates(t *testing.T) {
	c, nfs, _, _ := mounted(t)
	c.info.ReadDirMax = growReadDir
	allocs := func(entries int) float64 {
		res := &wire.ReadDirRes{Plus: true, Dir: dirPost, EOF: true}
		for k := range entries {
			name := fmt.Sprint("file", k)
			res.Entries = append(res.Entries, wire.Entry{FileID: 9, Name: name, Cookie: uint64(k + 1), Attr: filePost,
				Handle: wire.PostHandle{Set: true, Handle: nfsclient.Handle("of " + name)}})
		}
		return testing.AllocsPerRun(20, func() {
			nfs.expect(nfsStep(wire.ProcReadDirPlus, res))
			p, err := c.ReadDir(t.Context(), cred, "d", nfsclient.DirPos{}, true)
			if err != nil || len(p.Entries) != entries {
				t.Fatalf("%d entries, %v", len(p.Entries), err)
			}
			if e := p.Entries[entries-1]; e.Attr == nil || e.Attr.FileID != 2 || e.Handle != nfsclient.Handle("of "+e.Name) {
				t.Fatalf("%+v", e)
			}
		})
	}
	few, many := allocs(500), allocs(1000)
	if each := (many - few) / 500; each > 2.1 {
		t.Errorf("%.1f allocations an entry", each)
	}
}
