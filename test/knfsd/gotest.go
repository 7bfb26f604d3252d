package knfsd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// GoTest runs a package's tests in the guest, as root unless p says otherwise,
// and shows each of them as a test of t with its output. p needs no Test.
// After limit the tests are ended with a dump of their goroutines.
func (g *Guest) GoTest(t *testing.T, p Program, limit time.Duration) {
	t.Helper()
	p.Test = true
	p.Args = append([]string{"-test.v=test2json", "-test.paniconexit0", fmt.Sprintf("-test.timeout=%v", limit)}, p.Args...)
	// The dump takes the guest a while, and so does the build.
	ctx, cancel := context.WithTimeout(context.Background(), limit+2*time.Minute)
	defer cancel()
	output, code, err := g.RunProgram(ctx, p)
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	root, err := parseTests(ctx, output)
	if err != nil {
		t.Fatal(err)
	}
	if len(root.sub) == 0 {
		t.Errorf("no test was run")
	}
	root.replay(t)
	if code != 0 && !t.Failed() {
		t.Errorf("the tests ended with code %d", code)
	}
}

// tested is what a test in the guest did, and the tests below it in the order
// in which they began.
type tested struct {
	name   string // of one level
	result string // "pass", "fail", "skip"; empty if it did not end
	output strings.Builder
	sub    []*tested
}

// parseTests reads the output of a test binary run with -test.v=test2json.
func parseTests(ctx context.Context, output string) (*tested, error) {
	var events, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "tool", "test2json")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(output), &events, &complaints
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("knfsd: test2json: %w: %s", err, complaints.Bytes())
	}
	root := new(tested)
	for in := json.NewDecoder(&events); ; {
		var e struct{ Action, Test, Output string }
		if err := in.Decode(&e); err == io.EOF {
			return root, nil
		} else if err != nil {
			return nil, fmt.Errorf("knfsd: test2json: %w", err)
		}
		at := root.find(e.Test)
		switch e.Action {
		case "output":
			// Without the frames that t puts around it itself.
			if line := strings.TrimSpace(e.Output); !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
				at.output.WriteString(e.Output)
			}
		case "pass", "fail", "skip":
			at.result = e.Action
		}
	}
}

// find is the test of that name below t, made if need be.
func (t *tested) find(name string) *tested {
	if name == "" {
		return t
	}
	for first := range strings.SplitSeq(name, "/") {
		i := slices.IndexFunc(t.sub, func(s *tested) bool { return s.name == first })
		if i < 0 {
			i = len(t.sub)
			t.sub = append(t.sub, &tested{name: first})
		}
		t = t.sub[i]
	}
	return t
}

// replay shows the tests below r as tests of t, and r's output as t's.
func (r *tested) replay(t *testing.T) {
	for _, s := range r.sub {
		t.Run(s.name, s.replay)
	}
	if s := strings.TrimSpace(r.output.String()); s != "" {
		t.Log(s)
	}
	switch r.result {
	case "pass":
	case "skip":
		t.SkipNow()
	default:
		t.Errorf("in the guest: %s", cmp.Or(r.result, "did not end"))
	}
}
