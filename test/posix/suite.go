package posix

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"
)

// before42 lists what go-fuse's suite asks for and versions before 4.2 cannot do, and why.
var before42 = map[string]string{
	"Fallocate":  "NFSv3 and 4.1 have no ALLOCATE; the Linux client answers EOPNOTSUPP too",
	"XAttr":      "NFSv3 and 4.1 have no extended attributes",
	"XAttrLarge": "NFSv3 and 4.1 have no extended attributes",
}

// notOnNFS lists what it asks for and no version can do.
var notOnNFS = map[string]string{
	"FallocateKeepSize": "ALLOCATE of NFSv4.2 makes a file longer; the Linux client answers EOPNOTSUPP too",
	// It has one process lock a file twice with F_SETLK and wants the second
	// refused, which go-fuse's own lock handling does.
	"FcntlFlockLocksFile": "fcntl(2): locks of one process never conflict, and the kernel keeps our locks",
	// The kernel resolves the name anew once when the file it opens has been
	// replaced on the server in between (ESTALE); this replaces it faster.
	"OpenSymlinkRace": "a file replaced between lookup and open is stale in NFS, also for the Linux client",
}

// Run runs the suite below dir, which must be on the mount and writable.
func Run(t *testing.T, dir string) { RunWithout(t, dir, nil) }

// RunWithout is Run, less the cases of posixtest that this server cannot pass, each with the reason.
func RunWithout(t *testing.T, dir string, without map[string]string) {
	run(t, dir, notOnNFS, before42, without)
}

// Run42 is RunWithout for a mount with NFSv4.2, which has more.
func Run42(t *testing.T, dir string, without map[string]string) { run(t, dir, notOnNFS, without) }

func run(t *testing.T, dir string, without ...map[string]string) {
	for name, f := range posixtest.All {
		t.Run("posixtest/"+name, func(t *testing.T) {
			for _, lacks := range without {
				if why := lacks[name]; why != "" {
					t.Skip(why)
				}
			}
			f(t, subdir(t, dir))
		})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.f(t, subdir(t, dir)) })
	}
}

// subdir makes a directory for one case.
func subdir(t *testing.T, dir string) string {
	t.Helper()
	d, err := os.MkdirTemp(dir, filepath.Base(t.Name())+".")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(d); err != nil {
			t.Errorf("what the test made cannot be removed: %v", err)
		}
	})
	return d
}

type testCase struct {
	name string
	f    func(t *testing.T, dir string)
}

var cases = []testCase{
	{"ExclusiveCreate", exclusiveCreate},
	{"ExclusiveCreateRace", exclusiveCreateRace},
	{"Modes", modes},
	{"Times", times},
	{"LongSymlink", longSymlink},
	{"BigDirectory", bigDirectory},
	{"RemoveWhileListing", removeWhileListing},
	{"UnlinkOpen", unlinkOpen},
	{"RenameOverOpen", renameOverOpen},
	{"SparseFile", sparseFile},
	{"RandomWrites", randomWrites},
	{"TruncateDirty", truncateDirty},
	{"SharedMapping", sharedMapping},
	{"SyncedWrites", syncedWrites},
	{"DirectUnaligned", directUnaligned},
	{"AppendTwoOpens", appendTwoOpens},
	{"FIFOAndSocketNodes", fifoNode},
	{"LinkCount", linkCount},
	{"Errors", errorsCase},
	{"LongNames", longNames},
	{"StatFS", statFS},
	{"WriteReadManyFiles", manyFiles},
}
