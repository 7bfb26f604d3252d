package torture

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestMain runs this program as the processes of a cell, too.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 {
		switch os.Args[1] {
		case "cell", "serve", "worker":
			os.Exit(Main(os.Args[1:]))
		}
	}
	os.Exit(m.Run())
}

// program is the rdmafs command; tests that need it skip where cells cannot run.
func program(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: namespaces and mounts")
	}
	for _, need := range []string{"ip", "unshare"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Skip(err)
		}
	}
	bin, _, err := build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

func told(r Result) string {
	return fmt.Sprintf("%s: %d operations, %d faults, %d lost: %q\n%s", r.Cell, r.Ops, r.Injected, r.Lost, r.Failures, r.Log)
}

// TestFindsLies: what a server said was committed, and was not, is found; that
// of a server that does not lie is all there.
func TestFindsLies(t *testing.T) {
	bin := program(t)
	for k, transport := range transports {
		kind := []string{"buffered", "mmap", "append"}[k]
		t.Run(transport+"/"+kind, func(t *testing.T) {
			t.Parallel()
			c := Cell{Fault: liar, Transport: transport, Kind: kind, Seed: 7, Vers: "3", Binary: bin}
			if r := runOutside(c); r.Lost == 0 || len(r.Failures) == 0 {
				t.Errorf("the lie was not found: %s", told(r))
			}
			c.Fault = "server rebooted"
			if r := runOutside(c); len(r.Failures) > 0 || r.Lost > 0 || r.Injected == 0 || r.Ops == 0 {
				t.Error(told(r))
			}
		})
	}
}

// TestSchedule: each fault comes once before one comes again, a seed makes the
// same schedule, and what is left out has a reason.
func TestSchedule(t *testing.T) {
	p, err := parse([]string{"-seed", "5"})
	if err != nil {
		t.Fatal(err)
	}
	all, skipped := p.schedule()
	if len(all)+len(skipped) != len(order)*len(transports)*len(kinds) {
		t.Errorf("%d cells and %d left out, of %d faults", len(all), len(skipped), len(order))
	}
	again, _ := p.schedule()
	if fmt.Sprint(all) != fmt.Sprint(again) {
		t.Error("the same seed made another deck")
	}
	run := map[string]bool{}
	for _, c := range all {
		run[c.Fault] = true
	}
	first := map[string]bool{}
	for _, c := range all[:len(run)] {
		first[c.Fault] = true
	}
	if len(first) != len(run) {
		t.Errorf("the first %d cells have %d faults", len(run), len(first))
	}
	for cell, why := range skipped {
		if why == "" {
			t.Errorf("%s is left out without a reason", cell)
		}
	}
}

// asleep is no fault of the schedule: the server sleeps for longer than a mount waits.
const asleep = "server asleep"

func init() {
	faults[asleep] = &fault{what: asleep, run: func(c *run) error {
		c.server.signal(syscall.SIGSTOP)
		time.AfterFunc(2500*time.Millisecond, func() { c.server.signal(syscall.SIGCONT) })
		return c.mount()
	}}
}

// TestMountsSoon: a mount of a cell outlasts a server that is slow to answer.
func TestMountsSoon(t *testing.T) {
	c := Cell{Fault: asleep, Transport: "tcp", Kind: "buffered", Seed: 1, Vers: "3", Binary: program(t)}
	if r := runOutside(c); len(r.Failures) > 0 {
		t.Error(told(r))
	}
}

// TestKilledCallers: workers that create and write files all end when they are
// killed while the server is silent.
func TestKilledCallers(t *testing.T) {
	bin := program(t)
	// Seeds with which the server is stopped for both kills.
	for transport, seed := range map[string]uint64{"iwarp": 5, "roce": 7, "tcp": 15} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			c := Cell{Fault: "callers killed", Transport: transport, Kind: "append", Seed: seed, Vers: "3", Binary: bin}
			if r := runOutside(c); len(r.Failures) > 0 || r.Lost > 0 || r.Injected == 0 {
				t.Error(told(r))
			}
		})
	}
}
