package fs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// TestPruneCandidates: what no request has named goes first, and each once.
func TestPruneCandidates(t *testing.T) {
	const limit = 160
	c := newEveryName(t)
	table := newNodes(c)
	table.setLimit(limit)
	var all []uint64
	for k := range limit + 20 {
		e, err := c.Lookup(context.Background(), nfsclient.Cred{}, c.Root(), fmt.Sprint(k))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, table.take(e.Inode))
		over := false
		select {
		case <-table.over:
			over = true
		default:
		}
		if want := table.count() > limit; over != want {
			t.Errorf("%d inodes: asks for candidates %v, want %v", table.count(), over, want)
		}
	}
	excess := table.count() - limit
	first := table.candidates()
	if len(first) != excess+limit/8 {
		t.Errorf("%d candidates of %d inodes, want %d", len(first), table.count(), excess+limit/8)
	}
	seen := map[uint64]bool{fuse.FUSE_ROOT_ID: true}
	for _, id := range first {
		if seen[id] {
			t.Errorf("the victim %#x is the root or was named before", id)
		}
		seen[id] = true
	}
	// None of them goes: somebody uses them. Of the others half is used too.
	for k, id := range all {
		if k%2 == 0 {
			table.get(id)
		}
	}
	for _, id := range table.candidates() {
		if seen[id] {
			t.Errorf("the victim %#x has had its turn", id)
		}
		for k := 0; k < len(all); k += 2 {
			if all[k] == id {
				t.Errorf("the victim %#x was used since", id)
			}
		}
	}
	for _, id := range all {
		table.forget(id, 1)
	}
	if table.threshold != limit || table.count() != 1 {
		t.Errorf("in the end %d inodes, asking beyond %d", table.count(), table.threshold)
	}
}

// TestKernelForgets: the kernel is kept from knowing more inodes than it should,
// but for those that somebody uses.
func TestKernelForgets(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may mount by mount(2)")
	}
	const limit = 400
	dir := t.TempDir()
	f, err := Mount(newEveryName(t), NewKernel(), dir, Config{Source: "server:/export", MaxNodes: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
			_ = unix.Unmount(dir, unix.MNT_DETACH)
		}
		f.Wait()
	})
	if !f.server.KernelSettings().SupportsNotify(fuse.NOTIFY_PRUNE) {
		t.Skip("this kernel cannot be asked to forget (Linux 6.18 can)")
	}
	look := func(name string) {
		t.Helper()
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	used, err := unix.Open(filepath.Join(dir, "used"), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(used)
	var before unix.Stat_t
	if err := unix.Fstat(used, &before); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for end := time.Now().Add(time.Minute); seen < 10*limit || f.nodes.count() > limit; seen++ {
		look(fmt.Sprint("name-", seen))
		if time.Now().After(end) {
			t.Fatalf("after %d names, the kernel still knows %d inodes", seen, f.nodes.count())
		}
	}
	t.Logf("%d names, %d known", seen, f.nodes.count())
	// What is used is the same as ever, and what was forgotten is there again.
	var after unix.Stat_t
	if err := unix.Fstat(used, &after); err != nil || after.Ino != before.Ino {
		t.Errorf("the file in use has become %d, %v; it was %d", after.Ino, err, before.Ino)
	}
	look("name-0")
}
