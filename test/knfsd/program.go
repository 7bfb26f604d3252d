package knfsd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// Program is a Go program of the module, or a package's tests, to be run in
// the guest.
type Program struct {
	// Package is the import path.
	Package string
	// Test makes it the package's test binary, built with the tag guest and
	// run, as go test would, in a folder with the package's testdata.
	Test bool
	// Args are its arguments, those of the testing package as -test.v.
	Args []string
	// Env are further variables, as NAME=value.
	Env []string
	// Wrapper is a command that runs it, such as AsTester.
	Wrapper []string
}

// AsTester is a wrapper that runs a program as the guest's ordinary user, with
// the kernel's default limits.
var AsTester = []string{"env", "HOME=/tmp", "USER=tester", "setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "--inh-caps=-all"}

// programs is where Install puts them in the guest.
const programs = "/opt"

// Install builds p here, with cgo, and puts it into the guest. It returns the
// file's name there. What is in the guest already is replaced.
func (g *Guest) Install(ctx context.Context, p Program) (name string, err error) {
	base := path.Base(p.Package)
	args := []string{"build"}
	if p.Test {
		// Two packages' tests may end in the same word.
		base = strings.ReplaceAll(p.Package, "/", "-") + ".test"
		args = []string{"test", "-c", "-tags=guest"}
	}
	// Only the guest reads it; the name is free again when it has.
	dir, err := os.MkdirTemp(g.share, "program.")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	args = append(args, "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, base), p.Package)
	cmd := exec.CommandContext(ctx, "go", args...)
	// The guest's C library finds adapters; it is loaded at run time.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "GOOS=linux", "GOARCH=amd64")
	endWithUs(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("knfsd: build of %s: %w\n%s", p.Package, err, out)
	}
	if p.Test {
		if err := copyTestdata(ctx, p.Package, dir); err != nil {
			return "", err
		}
	}
	// A copy: pages of a running program should not come over the share.
	from, to := path.Join("/share", filepath.Base(dir)), path.Join(programs, base)
	_, err = g.Check(ctx, fmt.Sprintf("mkdir -p %[2]s && cp -r --remove-destination --no-preserve=ownership %[1]s/. %[2]s && chmod -R a+rX %[2]s",
		quote(from), quote(to)))
	return path.Join(to, base), err
}

// copyTestdata puts the testdata folder of pkg into dir, if there is one.
func copyTestdata(ctx context.Context, pkg, dir string) error {
	out, err := exec.CommandContext(ctx, "go", "list", "-tags=guest", "-f", "{{.Dir}}", pkg).Output()
	if err != nil {
		return fmt.Errorf("knfsd: go list %s: %w", pkg, err)
	}
	from := filepath.Join(strings.TrimSpace(string(out)), "testdata")
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS(from))
}

// RunProgram Installs p and runs it, as Run runs a command.
func (g *Guest) RunProgram(ctx context.Context, p Program) (output string, code int, err error) {
	name, err := g.Install(ctx, p)
	if err != nil {
		return "", -1, err
	}
	return g.Run(ctx, commandLine(name, p))
}

// commandLine runs the installed program in its own folder.
func commandLine(name string, p Program) string {
	words := append(append([]string{"exec", "env"}, p.Env...), p.Wrapper...)
	words = append(append(words, name), p.Args...)
	for i, w := range words[1:] {
		words[i+1] = quote(w)
	}
	return "cd " + quote(path.Dir(name)) + " && " + strings.Join(words, " ")
}
