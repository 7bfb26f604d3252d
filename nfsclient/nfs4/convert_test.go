package nfs4

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// A server may leave out attributes, but not those without which a file cannot be shown.
func TestAttributesLeftOut(t *testing.T) {
	c := &Client{}
	full := wire.Attrs{Mask: statAttrs, Type: nfsclient.Regular, Change: 7, Size: 5, FSID: wire.FSID{Major: 1, Minor: 2}, FileID: 9,
		Mode: 0o100644, NumLinks: 2, Owner: "12", OwnerGroup: "13", TimeModify: wire.Time{Sec: 3}}
	a, ok := c.toAttr(&full)
	if !ok || a.Mode != 0o644 || a.UID != 12 || a.GID != 13 || a.FileID != 9 || a.Change != nfsclient.ChangeByAttribute(7) || a.Mtime.Unix() != 3 {
		t.Errorf("%+v, %v", a, ok)
	}
	for _, n := range []wire.AttrNum{wire.AttrType, wire.AttrChange, wire.AttrSize, wire.AttrFSID} {
		less := full
		less.Mask.Remove(n)
		if _, ok := c.toAttr(&less); ok {
			t.Errorf("taken without attribute %d", n)
		}
	}
	less := full
	less.Mask = neededAttrs
	if a, ok := c.toAttr(&less); !ok || a.UID != nobody || a.GID != nobody || a.Mode != 0 {
		t.Errorf("%+v, %v", a, ok)
	}
	named := full
	named.Type = 8
	if _, ok := c.toAttr(&named); ok {
		t.Error("a directory of named attributes is taken for a file")
	}
	if fsid(wire.FSID{Major: 1, Minor: 2}) == fsid(wire.FSID{Major: 2, Minor: 1}) {
		t.Error("two file systems have one number")
	}
}

// A listing that could mislead a program, or never end, is refused.
func TestDirents(t *testing.T) {
	c := &Client{}
	entries := func(from uint64, eof bool, names []string, cookies ...uint64) error {
		rd := &wire.ReadDir{EOF: eof}
		for i, n := range names {
			rd.Entries = append(rd.Entries, wire.Entry{Name: n, Cookie: cookies[i]})
		}
		_, err := c.dirents(from, rd)
		return err
	}
	for _, e := range []struct {
		ok      bool
		from    uint64
		eof     bool
		names   []string
		cookies []uint64
	}{
		{true, 0, false, []string{"a", "b"}, []uint64{3, 4}},
		{true, 0, true, []string{"a", "b"}, []uint64{9, 4}},
		{true, 0, false, []string{"a", "b", "c"}, []uint64{3, 3, 4}},
		{false, 0, false, []string{"a/b"}, []uint64{3}},
		{false, 0, false, []string{""}, []uint64{3}},
		{false, 0, false, []string{"a\x00"}, []uint64{3}},
		{false, 4, false, []string{"a", "b"}, []uint64{3, 4}},
		{false, 0, true, []string{"a"}, []uint64{0}},
		{false, 0, false, []string{"a", "b", "c"}, []uint64{3, 3, 3}},
		{false, 0, false, []string{"a", "b", "c"}, []uint64{3, 4, 3}},
	} {
		if err := entries(e.from, e.eof, e.names, e.cookies...); (err == nil) != e.ok {
			t.Errorf("%q, cookies %d from %d: %v", e.names, e.cookies, e.from, err)
		}
	}
}
