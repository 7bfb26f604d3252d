package nfsd

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// page is one call of READDIR or READDIRPLUS; the size of its successful arm is
// checked against count.
func (c *client) page(dir nfsclient.Handle, plus bool, cookie uint64, verf nfsclient.Verifier, count uint32) wire.ReadDirRes {
	c.t.Helper()
	proc, args := uint32(wire.ProcReadDir), encode(&wire.ReadDirArgs{Dir: dir, Cookie: cookie, Verifier: verf, Count: count})
	if plus {
		proc, args = wire.ProcReadDirPlus, encode(&wire.ReadDirPlusArgs{
			Dir: dir, Cookie: cookie, Verifier: verf, DirCount: count, MaxCount: count,
		})
	}
	stat, b := c.raw(c.t.Context(), c.xid.Add(1), wire.NFSProgram, wire.NFSVersion, proc, args)
	if stat != transport.Success {
		c.t.Fatalf("READDIR: accept_stat %d", stat)
	}
	res := wire.ReadDirRes{Plus: plus}
	parseAll(c.t, b, &res)
	if res.Status == nfsclient.OK && len(b)-4 > int(count) {
		c.t.Errorf("READDIR of %d bytes returned %d", count, len(b)-4)
	}
	return res
}

// list reads a whole directory; each is called between pages.
func (c *client) list(dir nfsclient.Handle, plus bool, count uint32, each func([]wire.Entry)) []wire.Entry {
	c.t.Helper()
	var all []wire.Entry
	var cookie uint64
	var verf nfsclient.Verifier
	for {
		res := c.page(dir, plus, cookie, verf, count)
		c.must("READDIR", res.Status)
		if len(res.Entries) == 0 && !res.EOF {
			c.t.Fatal("READDIR made no progress")
		}
		all = append(all, res.Entries...)
		if res.EOF {
			return all
		}
		cookie, verf = res.Entries[len(res.Entries)-1].Cookie, res.Verifier
		if each != nil {
			each(res.Entries)
		}
	}
}

// big is a directory of n files made behind the server's back.
func big(t testing.TB, n int) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "big"), 0o777); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, "big", fmt.Sprintf("file-%05d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const many = 10000

func TestBigDirectory(t *testing.T) {
	dir := big(t, many)
	for _, x := range []Export{{Dir: dir}, {Dir: dir, InodeHandles: true}} {
		c := start(t, x)
		d := c.lookup(c.root, "big").Handle
		for _, plus := range []bool{false, true} {
			for _, count := range []uint32{512, 4096, 1 << 17, 1 << 20} {
				seen := map[string]bool{}
				for _, e := range c.list(d, plus, count, nil) {
					if seen[e.Name] {
						t.Fatalf("%s is listed twice", e.Name)
					}
					seen[e.Name] = true
					if plus && e.Name[0] == 'f' {
						if !e.Attr.Set || !e.Handle.Set || e.Attr.Attr.FileID != e.FileID {
							t.Fatalf("entry %+v", e)
						}
					}
				}
				if len(seen) != many+2 || !seen["."] || !seen[".."] {
					t.Errorf("inode handles %v, plus %v, count %d: %d entries", x.InodeHandles, plus, count, len(seen))
				}
			}
		}
		e := c.list(d, true, 4096, nil)[many/2]
		if l := c.lookup(d, e.Name); l.Handle != e.Handle.Handle || l.Attr != e.Attr {
			t.Errorf("LOOKUP and READDIRPLUS differ for %s", e.Name)
		}
	}
}

// TestRemoveWhileListing is rm -r: what has been listed is removed before the
// next part is asked for, and nothing may be left over.
func TestRemoveWhileListing(t *testing.T) {
	kinds(t, func(t *testing.T, x Export) {
		const n = 3000
		x.Dir, x.Async = big(t, n), true
		c := start(t, x)
		d := c.lookup(c.root, "big").Handle
		rm := func(es []wire.Entry) {
			for _, e := range es {
				if e.Name[0] != '.' {
					c.must("REMOVE", c.remove(d, e.Name).Status)
				}
			}
		}
		var last []wire.Entry
		all := c.list(d, false, 4096, func(es []wire.Entry) { rm(es); last = es })
		rm(all[len(all)-lastPage(all, last):])
		if len(all) != n+2 {
			t.Errorf("%d entries listed", len(all))
		}
		c.must("RMDIR", c.rmdir(c.root, "big").Status)
	})
}

// lastPage is how many entries came after the last page that was removed.
func lastPage(all, last []wire.Entry) int {
	for i := range all {
		if len(last) > 0 && all[i].Name == last[len(last)-1].Name {
			return len(all) - i - 1
		}
	}
	return len(all)
}

func TestReadDirBounds(t *testing.T) {
	c := start(t, Export{})
	for i := range 20 {
		c.mustCreate(c.root, fmt.Sprintf("a-name-of-some-length-%d", i))
	}
	for _, plus := range []bool{false, true} {
		first, all := true, 0
		for count := uint32(0); count < 4000; count += 4 {
			res := c.page(c.root, plus, 0, nfsclient.Verifier{}, count)
			switch {
			case res.Status == nfsclient.ErrTooSmall && first:
			case res.Status == nfsclient.OK && len(res.Entries) > 0:
				first = false
				if len(res.Entries) < all {
					t.Errorf("count %d: fewer entries than with less", count)
				}
				all = len(res.Entries)
			default:
				t.Errorf("plus %v, count %d: %v, %d entries", plus, count, res.Status, len(res.Entries))
			}
		}
		if first || !plus && all != 22 {
			t.Errorf("plus %v: at most %d entries", plus, all)
		}
	}
	f := c.mustCreate(c.root, "f")
	c.want("READDIR of a file", c.page(f, false, 0, nfsclient.Verifier{}, 4096).Status, nfsclient.ErrNotDir)
	c.want("cookie with a foreign verifier", c.page(c.root, false, 1, nfsclient.Verifier{9}, 4096).Status, nfsclient.ErrBadCookie)
	v := c.page(c.root, false, 0, nfsclient.Verifier{}, 4096).Verifier
	c.want("impossible cookie", c.page(c.root, false, 1<<63+5, v, 4096).Status, nfsclient.ErrBadCookie)

	// dircount bounds names only, and lets one through in any case.
	var res wire.ReadDirRes
	res.Plus = true
	c.call(wire.ProcReadDirPlus, &wire.ReadDirPlusArgs{Dir: c.root, DirCount: 1, MaxCount: 8192}, &res)
	if res.Status != nfsclient.OK || len(res.Entries) != 1 {
		t.Errorf("dircount 1: %v, %d entries", res.Status, len(res.Entries))
	}
	// The way up from the root is the root.
	for _, e := range c.list(c.root, false, 4096, nil) {
		if a, _ := c.getattr(c.root); e.Name == ".." && e.FileID != a.FileID {
			t.Errorf(".. of the root is file %d, not %d", e.FileID, a.FileID)
		}
	}
}
