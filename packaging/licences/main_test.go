package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLinked: what rdmafs is made of is all there, and nothing of tests.
func TestLinked(t *testing.T) {
	modules, err := linked("../../cmd/rdmafs")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := write(&b, modules); err != nil {
		t.Fatal(err)
	}
	list, _, _ := strings.Cut(b.String(), "\nCopyright")
	for _, want := range []string{"  github.com/rdmafs/rdmafs\n", "  github.com/hanwen/go-fuse/v2 v", "  github.com/spf13/cobra v", "  golang.org/x/sys v", "  Go's library go1."} {
		if !strings.Contains(list, want) {
			t.Errorf("%q is not in %s", want, list)
		}
	}
	if !strings.Contains(b.String(), "Copyright (c) 2009 The Go Authors") && !strings.Contains(b.String(), "Copyright 2009 The Go Authors") {
		t.Error("Go's own licence is missing")
	}
}

// TestWithoutLicence: a module that has none is an error.
func TestWithoutLicence(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "license.go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	err := write(&bytes.Buffer{}, []module{{Path: "example.com/m", Version: "v1.0.0", Dir: dir}})
	if err == nil || !strings.Contains(err.Error(), "example.com/m v1.0.0 has no licence") {
		t.Errorf("got %v", err)
	}
}
