package main

import (
	"bytes"
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// execute runs a command as a user types it, and returns what it printed.
func execute(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := newRootCommand(args)
	root.SetArgs(args)
	root.SetOut(&out)
	if err := root.Execute(); err != nil {
		t.Fatalf("rdmafs %s: %v", strings.Join(args, " "), err)
	}
	return out.String()
}

// TestVersion: "rdmafs version" and "rdmafs --version" say the same, and --json has
// what machines need.
func TestVersion(t *testing.T) {
	text := execute(t, "version")
	if got := execute(t, "--version"); got != text {
		t.Errorf("--version says %q, version %q", got, text)
	}
	var r buildReport
	if err := json.Unmarshal([]byte(execute(t, "version", "--json")), &r); err != nil {
		t.Fatal(err)
	}
	if r.Go != runtime.Version() || r.Version == "" {
		t.Errorf("got %+v", r)
	}
	if !slices.Contains(r.Providers, "iwarp") || !slices.Contains(r.Providers, "roce") || slices.Contains(r.Providers, "ibv") != r.Cgo {
		t.Errorf("providers %q of a build with cgo=%v", r.Providers, r.Cgo)
	}
	for _, s := range append(r.Providers, r.Version, r.Go) {
		if !strings.Contains(text, s) {
			t.Errorf("%q is not in %q", s, text)
		}
	}
}
