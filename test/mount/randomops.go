package mount

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"

	"github.com/rdmafs/rdmafs/test/randomops"
)

var (
	randomCount = flag.Int("random.ops", 0, "how many random operations each mount gets; 0 for some, or for 200000 with RDMAFS_TEST_ALL=1 on the embedded server")
	randomSeed  = flag.Uint64("random.seed", 0, "the seed of the random operations; 0 for a random one")
)

// randomEnv has the randomops.Config of the process that RandomOps starts.
const randomEnv = "RDMAFS_TEST_RANDOM_OPS"

// allEnv, when set, asks for what CI has no time for: make test-all sets it.
const allEnv = "RDMAFS_TEST_ALL"

// RandomOpsOptions says how many operations there are, without RDMAFS_TEST_ALL and with it, and which test, not
// one of its subtests, begins with RandomOpsInside.
type RandomOpsOptions struct {
	Few, All int
	Test     string
}

// RandomOpsInside does the operations of RandomOps if this is the process for them, and reports whether it is.
func RandomOpsInside(t *testing.T) bool {
	t.Helper()
	s := os.Getenv(randomEnv)
	if s == "" {
		return false
	}
	var c randomops.Config
	if err := json.Unmarshal([]byte(s), &c); err != nil {
		t.Fatal(err)
	}
	if err := randomops.Run(c); err != nil {
		t.Fatal(err)
	}
	return true
}

// RandomOps does random operations on dir, an empty directory on a mount, and compares each
// result with that on a local directory, which it returns to be compared with randomops.Same.
// They are done by another process, as mapped files are among them.
func RandomOps(t *testing.T, dir string, o RandomOpsOptions) (local string) {
	t.Helper()
	c := randomops.Config{Mount: dir, Local: t.TempDir(), Seed: *randomSeed, Ops: *randomCount}
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	if c.Ops == 0 {
		if c.Ops = o.Few; os.Getenv(allEnv) != "" {
			c.Ops = o.All
		}
	}
	role, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d operations, seed %d", c.Ops, c.Seed)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+o.Test+"$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), randomEnv+"="+string(role))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return c.Local
}
