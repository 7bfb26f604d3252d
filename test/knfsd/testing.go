package knfsd

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/netns"
)

// requireEnv, when set, makes a missing prerequisite a failure: for machines
// whose job it is to run these tests.
const requireEnv = "RDMAFS_KNFSD_REQUIRED"

// allEnv, when set, asks for the tests that CI has no time for: make test-all sets it.
const allEnv = "RDMAFS_TEST_ALL"

// NeedAll skips a test that takes long, unless all are asked for.
func NeedAll(t testing.TB) {
	t.Helper()
	if os.Getenv(allEnv) == "" {
		t.Skip("takes minutes: make test-all runs it")
	}
}

// bootTime bounds a first start, which builds the image.
const bootTime = 10 * time.Minute

// Need skips the test, with the reason, where no guest of this kind can run;
// if RDMAFS_KNFSD_REQUIRED is set it fails the test instead.
func Need(t testing.TB, c Config) {
	t.Helper()
	if err := Available(c); err != nil {
		if os.Getenv(requireEnv) != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// StartTest is Start for a test: it Needs the guest, and stops it when the
// test ends, showing the console if the test failed.
func StartTest(t testing.TB, c Config) *Guest {
	t.Helper()
	Need(t, c)
	ctx, cancel := context.WithTimeout(context.Background(), bootTime)
	defer cancel()
	g, err := Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if g.boots > 1 {
		t.Logf("the guest came up at boot %d: the emulator tripped over a patched instruction before", g.boots)
	}
	t.Cleanup(func() {
		if t.Failed() || g.machine.exited() {
			t.Logf("console of the guest:\n%s", g.Console())
		}
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// Record begins to record what passes the Tap network, on the host's side; Stop must end it.
func (g *Guest) Record(t testing.TB, path string) *netns.Recorder {
	t.Helper()
	return netns.RecordCard(t, g.ns, tapName, path)
}
