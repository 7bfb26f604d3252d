package knfsd

import (
	"context"
	"os"
	"testing"
	"time"
)

// requireEnv, when set, makes a missing prerequisite a failure: for machines
// whose job it is to run these tests.
const requireEnv = "RDMAFS_KNFSD_REQUIRED"

// bootTime bounds a first start, which builds the image.
const bootTime = 10 * time.Minute

// StartTest is Start for a test: it skips, with the reason, where no guest can
// run, unless RDMAFS_KNFSD_REQUIRED is set, and stops the guest when the test
// ends, showing the console if the test failed.
func StartTest(t testing.TB, c Config) *Guest {
	t.Helper()
	if err := Available(c); err != nil {
		if os.Getenv(requireEnv) != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), bootTime)
	defer cancel()
	g, err := Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("console of the guest:\n%s", g.Console())
		}
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	})
	return g
}
