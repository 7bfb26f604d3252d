package mount

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rdmafs/rdmafs/test/randomops"
)

var (
	randomCount = flag.Int("random.ops", 0, "how many random operations each mount gets; 0 for some, or for 200000 with RDMAFS_TEST_ALL=1")
	randomSeed  = flag.Uint64("random.seed", 0, "the seed of the random operations; 0 for a random one")
)

// randomEnv has the randomops.Config of the process that RandomOps starts.
const randomEnv = "RDMAFS_TEST_RANDOM_OPS"

// allEnv, when set, asks for what CI has no time for: make test-all sets it.
const allEnv = "RDMAFS_TEST_ALL"

// RandomOps does random operations on dir, an empty directory on a mount, and compares each
// result with that on a local directory, which it returns to be compared with randomops.Same.
// They are another process, as mapped files are among them: this test again, which must
// call RandomOps before it does anything else, and has then to return when local is "".
func RandomOps(t *testing.T, dir func() string, few int) (local string) {
	t.Helper()
	if s := os.Getenv(randomEnv); s != "" {
		var c randomops.Config
		if err := json.Unmarshal([]byte(s), &c); err != nil {
			t.Fatal(err)
		}
		if err := randomops.Run(c); err != nil {
			t.Fatal(err)
		}
		return ""
	}
	c := randomops.Config{Mount: dir(), Local: t.TempDir(), Seed: *randomSeed, Ops: *randomCount}
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	if c.Ops == 0 {
		if c.Ops = few; os.Getenv(allEnv) != "" {
			c.Ops = 200_000
		}
	}
	role, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d operations, seed %d", c.Ops, c.Seed)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), randomEnv+"="+string(role))
	cmd.Dir = filepath.Dir(c.Local)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return c.Local
}
