package fs

import (
	"context"
	"fmt"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// TestNodeNumbers: each number stands for one inode while the kernel holds it,
// for none after, and never for another one, though its place is used again.
func TestNodeNumbers(t *testing.T) {
	c := newEveryName(t)
	table := newNodes(c)
	lookup := func(name string) *cache.Inode {
		e, err := c.Lookup(context.Background(), nfsclient.Cred{}, c.Root(), name)
		if err != nil {
			t.Fatal(err)
		}
		return e.Inode
	}
	if i, st := table.get(fuse.FUSE_ROOT_ID); !st.Ok() || i != c.Root() {
		t.Errorf("the root's number gives %v, %v", i, st)
	}
	table.forget(fuse.FUSE_ROOT_ID, 1)
	const files, kept = 3 * chunkSlots, 100
	table.forgotten.maximum = kept
	ever := map[uint64]bool{fuse.FUSE_ROOT_ID: true}
	for round := range 3 {
		held := map[uint64]*cache.Inode{}
		for k := range files {
			i := lookup(fmt.Sprint(round, k))
			if _, known := table.number(i); known {
				t.Fatal("has a number before the kernel knows it")
			}
			id := table.take(i)
			if ever[id] {
				t.Fatalf("the number %#x was used before", id)
			}
			ever[id] = true
			held[id] = i
			if again := table.take(lookup(fmt.Sprint(round, k))); again != id {
				t.Fatalf("an inode has the numbers %#x and %#x", id, again)
			}
		}
		if n := table.count(); n != files+1 {
			t.Errorf("%d nodes, want %d", n, files+1)
		}
		for id, i := range held {
			if got, st := table.get(id); !st.Ok() || got != i {
				t.Fatalf("%#x gives %v, %v", id, got, st)
			}
			if n, ok := table.number(i); !ok || n != id {
				t.Fatalf("the number is %#x, %v, not %#x", n, ok, id)
			}
			table.forget(id, 1)
			if _, st := table.get(id); !st.Ok() {
				t.Fatal("forgotten with one lookup left")
			}
			table.forget(id, 1)
			if _, st := table.get(id); st.Ok() {
				t.Fatal("known after it was forgotten")
			}
			table.forget(id, 1) // of a number that nobody has: nothing happens
		}
	}
	if n, most := table.used, files+2+kept; n != most {
		t.Errorf("%d slots used, want %d", n, most)
	}
	if n := len(table.forgotten.byFile); n != kept || len(table.forgotten.byNode) != kept {
		t.Errorf("%d forgotten files are kept, want %d", n, kept)
	}
	// The last ones come back under their numbers, by whatever way.
	for _, n := range table.forgotten.ring {
		id := uint64(table.at(n.slot).generation)<<32 | uint64(n.slot)
		if h, ok := table.kept(id); !ok || h != n.file {
			t.Fatalf("%#x is kept for %q, %v", id, h, ok)
		}
		if _, ok := table.kept(id + 1<<32); ok {
			t.Fatal("a number of another generation is kept")
		}
		e, err := c.ByHandle(context.Background(), nfsclient.Cred{}, n.file)
		if err != nil {
			t.Fatal(err)
		}
		if again := table.take(e.Inode); again != id {
			t.Fatalf("the number was %#x and is %#x", id, again)
		}
		table.forget(id, 1)
	}
	for _, id := range []uint64{0, 1 << 31, 1 << 31, 1 << 32, 1<<32 | 1, ^uint64(0)} {
		if _, st := table.get(id); st.Ok() {
			t.Errorf("%#x is an inode's number", id)
		}
	}
}
