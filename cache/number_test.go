package cache

import (
	"fmt"
	"hash/maphash"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// TestEqualFileIDs: many files of one file id get numbers of their own, without
// a search that grows with their count.
func TestEqualFileIDs(t *testing.T) {
	const files = 40_000
	seed, taken, looks := maphash.MakeSeed(), map[uint64]bool{}, 0
	for k := range files {
		n := chooseNumber(7, func() uint64 { return maphash.String(seed, fmt.Sprint(k)) }, func(n uint64) bool {
			looks++
			return taken[n]
		})
		if taken[n] || n == 0 || n == ^uint64(0) {
			t.Fatalf("file %d has the number %#x", k, n)
		}
		if k == 0 && n != 7 {
			t.Errorf("the first has %d, want its file id", n)
		}
		taken[n] = true
	}
	// One for the file id and one for the handle; a third is unheard of.
	if looks > 2*files+10 {
		t.Errorf("%d looks for %d files", looks, files)
	}
}

// TestUnusableNumbers: numbers with another meaning are not chosen, wherever
// they come from.
func TestUnusableNumbers(t *testing.T) {
	for _, bad := range []uint64{0, ^uint64(0)} {
		if n := chooseNumber(bad, func() uint64 { return bad }, func(uint64) bool { return false }); n == 0 || n == ^uint64(0) {
			t.Errorf("%#x became %#x", bad, n)
		}
	}
	if n := chooseNumber(1, func() uint64 { return 1 }, func(n uint64) bool { return n == 1 }); n == 1 {
		t.Error("a number was given twice")
	}
}

// TestInternEqualFileIDs: handles with one file id are inodes of their own, and
// keep their numbers while they are known.
func TestInternEqualFileIDs(t *testing.T) {
	c := newCache(t, newFake(t), testConfig())
	a := nfsclient.Attr{Type: nfsclient.Regular, FileID: 4711, FSID: c.fsid}
	var all []*Inode
	numbers := map[uint64]bool{}
	for k := range 40_000 {
		i := c.intern(nfsclient.Handle(fmt.Sprint("file ", k)), &a)
		all = append(all, i)
		numbers[i.Ino()] = true
	}
	if len(numbers) != len(all) {
		t.Errorf("%d numbers for %d files", len(numbers), len(all))
	}
	for k, i := range all {
		again := c.intern(nfsclient.Handle(fmt.Sprint("file ", k)), &a)
		if again != i {
			t.Fatalf("file %d is two inodes", k)
		}
		again.unpin()
		i.unpin()
	}
}
