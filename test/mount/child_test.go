package mount

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"testing"
)

// insideChild holds the arguments of a test that runs in a process of its own.
const insideChild = "RDMAFS_TEST_CHILD"

// childArgs is what runChild passed, or nil in the process that calls it. A test
// that maps files of its own server's mount does so in a child: the garbage
// collector waits for a thread that waits for a page, and the server would wait
// for the collector.
func childArgs(t *testing.T) (args []string) {
	t.Helper()
	s := os.Getenv(insideChild)
	if s == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(s), &args); err != nil {
		t.Fatal(err)
	}
	return args
}

// runChild runs the test, which must not be a part of one, anew with args.
func runChild(t *testing.T, args ...string) {
	t.Helper()
	b, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout="+flag.Lookup("test.timeout").Value.String())
	// More processors than threads: one that waits for a page keeps its own.
	cmd.Env = append(os.Environ(), "GOMAXPROCS=8", insideChild+"="+string(b))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, out)
	} else if err != nil {
		t.Fatal(err)
	}
}
