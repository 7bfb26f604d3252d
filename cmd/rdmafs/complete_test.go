package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestMain lets this program stand for rdmafs in a shell.
func TestMain(m *testing.M) {
	if f := os.Getenv("RDMAFS_TEST_FSTAB"); f != "" {
		fstab = f
		os.Exit(run("rdmafs", os.Args[1:]))
	}
	os.Exit(m.Run())
}

// TestPositions: what a usage line names, by position.
func TestPositions(t *testing.T) {
	for use, want := range map[string][][]string{
		"version":                         nil,
		"mount SERVER:/EXPORT MOUNTPOINT": {{"SERVER:/EXPORT"}, {"MOUNTPOINT"}},
		"bench DIRECTORY | SERVER:/EXPORT [-o OPTIONS] [--no-fuse]": {{"DIRECTORY", "SERVER:/EXPORT"}},
		"sync MOUNTPOINT | sync SOURCE TARGET":                      {{"MOUNTPOINT", "SOURCE"}, {"TARGET"}},
	} {
		if got := positions(use); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %q, want %q", use, got, want)
		}
	}
}

// TestMountPointsOnly: commands about a mount offer mounts of rdmafs and no files.
func TestMountPointsOnly(t *testing.T) {
	for _, command := range []string{"umount", "status", "stats"} {
		out := execute(t, "__complete", command, "/nothing/mounted/he")
		if out != ":4\n" {
			t.Errorf("%s: %q", command, out)
		}
	}
}

// keys is what is typed, and line the command that then runs.
var typed = []struct{ name, keys, line string }{
	{"command", "rdmafs moun\t", "mount"},
	{"flag", "rdmafs status --js\t", "status --json"},
	{"option", "rdmafs mount -o soft,nconn\t4", "mount -o soft,nconnect=4"},
	{"value", "rdmafs mount -o soft,local_lock=p\t", "mount -o soft,local_lock=posix"},
	{"option without command", "rdmafs -o wsi\t8192", "-o wsize=8192"},
	{"server of fstab", "rdmafs mount nas1\t", "mount nas1:/export/home"},
	{"path of a server", "rdmafs doctor nas2:/sc\t", "doctor nas2:/scratch"},
}

// inShell types keys on a terminal of a real shell, and returns the arguments with
// which rdmafs was run at the end of the line.
func inShell(t *testing.T, setup, shell, keys string) string {
	t.Helper()
	program(t, "script")
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	write("fstab", "# a comment\nnas1:/export/home /home fuse.rdmafs _netdev 0 0\nnas2:/scratch /scratch nfs rw 0 0\n/dev/sda1 / ext4 rw 0 1\nnas3:/no /x cifs rw 0 0\n", 0o644)
	write("rdmafs", fmt.Sprintf("#!/bin/sh\ncase $1 in __complete*|completion) RDMAFS_TEST_FSTAB=%s/fstab exec %s \"$@\" ;; esac\necho \"$*\" >%s/ran\n", dir, self, dir), 0o755)
	write("setup", setup, 0o644)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer feed.Close()
	cmd := exec.CommandContext(ctx, "script", "-qec", strings.ReplaceAll(shell, "DIR", dir), "/dev/null")
	cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir, "TERM=dumb", "LC_ALL=C.UTF-8", "XDG_CONFIG_HOME=" + dir, "XDG_DATA_HOME=" + dir}
	cmd.Stdin = in
	if _, err := feed.WriteString(keys + "\nexit\n"); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	ran, rerr := os.ReadFile(filepath.Join(dir, "ran"))
	if rerr != nil {
		t.Fatalf("rdmafs was not run: %v, %s", err, out)
	}
	return strings.TrimSpace(string(ran))
}

// TestBash: what bash makes of the tab key.
func TestBash(t *testing.T) {
	const completion = "/usr/share/bash-completion/bash_completion"
	if _, err := os.Stat(completion); err != nil {
		t.Skip("bash-completion is not installed (make test-packages installs it)")
	}
	for _, c := range typed {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			setup := "bind 'set enable-bracketed-paste off'\n. " + completion + "\n. <(rdmafs completion bash)\n"
			if got := inShell(t, setup, "bash --noprofile --rcfile DIR/setup -i", c.keys); got != c.line {
				t.Errorf("got %q, want %q", got, c.line)
			}
		})
	}
}

// TestZsh: what zsh makes of it.
func TestZsh(t *testing.T) {
	program(t, "zsh")
	for _, c := range typed {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			setup := "autoload -U compinit && compinit -u -D\nsource <(rdmafs completion zsh)\n"
			if got := inShell(t, setup, "mv DIR/setup DIR/.zshrc; HOME=DIR zsh -d -i", c.keys); got != c.line {
				t.Errorf("got %q, want %q", got, c.line)
			}
		})
	}
}

// TestFish: what fish would complete; its own command says so without a terminal.
func TestFish(t *testing.T) {
	program(t, "fish")
	for _, c := range typed {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			line, _, _ := strings.Cut(c.keys, "\t")
			fields := strings.Fields(c.line)
			want := strings.TrimRight(fields[len(fields)-1], "48192")
			if c.name == "server of fstab" || c.name == "path of a server" {
				want = fields[len(fields)-1]
			}
			shell := fmt.Sprintf("fish --no-config -c 'rdmafs completion fish | source; rdmafs (complete -C \"%s\" | string split -f1 \\t)'", line)
			if got := inShell(t, "", shell, ""); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
