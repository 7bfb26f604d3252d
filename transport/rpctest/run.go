package rpctest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// NewCaller starts a server for h and returns a Caller that reaches it, as for a hard
// mount and with a timeout longer than the suite; both end with the test t. cut severs
// all connections at once, as a failing switch would; the server accepts new ones.
type NewCaller func(t *testing.T, h transport.Handler) (c transport.Caller, cut func())

// env is what a subtest works with.
type env struct {
	*testing.T
	c    transport.Caller
	p    *program
	cut  func()
	wins []window
}

// windowSize holds the longest payload of the suite in its guards.
const windowSize = 1<<20 + 1<<16

// Run is the suite.
func Run(t *testing.T, newCaller NewCaller) {
	for _, s := range []struct {
		name string
		f    func(*env)
	}{
		{"Null", testNull},
		{"Inline", testInline},
		{"LongArguments", testLongArguments},
		{"LongResults", testLongResults},
		{"ShortOfBound", testShortOfBound},
		{"PayloadIn", testPut},
		{"PayloadOut", testGet},
		{"PayloadBoth", testSwap},
		{"PayloadsMany", testMany},
		{"Credentials", testCredentials},
		{"NoDirectPlacement", testNoDirect},
		{"Protected", testProtected},
		{"Refusals", testRefusals},
		{"ErrorsOfResult", testErrorsOfResult},
		{"Concurrent", testConcurrent},
		{"Cancelled", testCancelled},
		{"CancelledBeforehand", testCancelledBeforehand},
		{"CancelledUnderLoad", testCancelledUnderLoad},
		{"CutIsResent", testCutIsResent},
		{"CutUnderLoad", testCutUnderLoad},
		{"Close", testClose},
	} {
		t.Run(s.name, func(t *testing.T) { run(t, newCaller, s.f) })
	}
}

// run makes an env for f.
func run(t *testing.T, newCaller NewCaller, f func(*env)) {
	t.Cleanup(func() { nothingLeft(t) }) // runs last
	e := &env{T: t, p: newProgram()}
	a, err := mem.NewArena(4 * windowSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the Caller is closed
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	e.c, e.cut = newCaller(t, e.p)
	if err := e.c.Register(a); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		e.wins = append(e.wins, window{a, i * windowSize, windowSize})
	}
	f(e)
}

func (e *env) check(err error, format string, args ...any) {
	e.Helper()
	if err != nil {
		e.Errorf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

// sizes are those of payloads, as far as the transport's limit goes.
func sizes(limit int) []int {
	var s []int
	for _, n := range []int{0, 1, 3, 4, 1 << 10, 4 << 10, 64 << 10, 1<<20 - 1, 1 << 20, 1<<20 + 1} {
		if n <= limit {
			s = append(s, n)
		}
	}
	return s
}

// nothingLeft fails the test if a goroutine of the transport is left. A goroutine that
// cannot be joined, as that of a timer that has fired, gets time to end.
func nothingLeft(t *testing.T) {
	b := make([]byte, 4<<20)
	var left []string
	for range 10_000 {
		left = left[:0]
		for _, g := range strings.Split(string(b[:runtime.Stack(b, true)]), "\n\n") {
			if strings.Contains(g, "rdmafs/rdmafs/") && !strings.Contains(g, "testing.tRunner") && !strings.Contains(g, "testing.(*T).Run") {
				left = append(left, g)
			}
		}
		if len(left) == 0 {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%d goroutines left:\n%s", len(left), strings.Join(left, "\n\n"))
}
