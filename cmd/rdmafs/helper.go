package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/look"
)

// mount(8) and umount(8) start a helper by the type of the file system, with arguments
// of their own ("External helpers" in both pages). Links to rdmafs by these names are
// such helpers.
var helpers = map[string]func(args []string) (*helperCall, error){
	"mount.rdmafs": mountHelper, "mount.fuse.rdmafs": mountHelper,
	"umount.rdmafs": umountHelper, "umount.fuse.rdmafs": umountHelper,
}

// helperCall is what a helper is to do.
type helperCall struct {
	args      []string // of rdmafs
	dir       int      // which of them is the mount point
	namespace string   // mount namespace to do it in, a file of /proc; "" for this one
}

// asHelper is the command line of rdmafs that a helper's stands for: args themselves if
// name is no helper's.
func asHelper(name string, args []string) ([]string, error) {
	understand := helpers[filepath.Base(name)]
	if understand == nil {
		return args, nil
	}
	call, err := understand(args)
	if err != nil {
		return nil, withCode(exitUsage, err)
	}
	if call.namespace != "" {
		return nil, withCode(exitSystem, call.enter())
	}
	return call.args, nil
}

func helperFlags(name string) *pflag.FlagSet {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	return f
}

// mountHelper understands SOURCE DIRECTORY [-sfnvrw] [-N NAMESPACE] [-o OPTIONS] [-t TYPE].
func mountHelper(args []string) (*helperCall, error) {
	f := helperFlags("mount")
	sloppy := f.BoolP("sloppy", "s", false, "")
	fake := f.BoolP("fake", "f", false, "")
	f.BoolP("no-mtab", "n", false, "") // there is none to write
	verbose := f.BoolP("verbose", "v", false, "")
	readOnly := f.BoolP("read-only", "r", false, "")
	f.BoolP("rw", "w", false, "") // the default
	namespace := f.StringP("namespace", "N", "", "")
	words := f.StringArrayP("options", "o", nil, "")
	f.StringP("type", "t", "", "") // which names this program
	if err := f.Parse(args); err != nil {
		return nil, fmt.Errorf("as a helper of mount(8): %w", err)
	}
	if f.NArg() != 2 {
		return nil, fmt.Errorf("a helper of mount(8) is called with SERVER:/EXPORT and MOUNTPOINT, got %d arguments", f.NArg())
	}
	call := &helperCall{args: []string{"mount", f.Arg(0), f.Arg(1)}, dir: 2, namespace: *namespace}
	for _, w := range *words {
		call.args = append(call.args, "-o", w)
	}
	for _, c := range []struct {
		on   bool
		args []string
	}{{*sloppy, []string{"-o", "sloppy"}}, {*readOnly, []string{"-o", "ro"}}, {*fake, []string{"--fake"}}, {*verbose, []string{"--verbose"}}} {
		if c.on {
			call.args = append(call.args, c.args...)
		}
	}
	return call, nil
}

// umountHelper understands DIRECTORY [-flnrv] [-N NAMESPACE] [-t TYPE].
func umountHelper(args []string) (*helperCall, error) {
	f := helperFlags("umount")
	force := f.BoolP("force", "f", false, "")
	lazy := f.BoolP("lazy", "l", false, "")
	f.BoolP("no-mtab", "n", false, "")
	f.BoolP("read-only", "r", false, "") // it is unmounted or not: there is no half of it
	f.BoolP("verbose", "v", false, "")
	namespace := f.StringP("namespace", "N", "", "")
	f.StringP("type", "t", "", "")
	if err := f.Parse(args); err != nil {
		return nil, fmt.Errorf("as a helper of umount(8): %w", err)
	}
	if f.NArg() != 1 {
		return nil, fmt.Errorf("a helper of umount(8) is called with one MOUNTPOINT, got %d arguments", f.NArg())
	}
	call := &helperCall{args: []string{"umount", f.Arg(0)}, dir: 1, namespace: *namespace}
	if *force {
		call.args = append(call.args, "--force")
	}
	if *lazy {
		call.args = append(call.args, "--lazy")
	}
	return call, nil
}

// enter runs rdmafs in another mount namespace, in place of this program. It
// returns only if that fails.
func (c *helperCall) enter() error {
	ns, err := os.Open(c.namespace)
	if err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	defer ns.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// setns(2) leaves the working directory.
	if c.args[c.dir], err = look.Absolute(c.args[c.dir]); err != nil {
		return err
	}
	// A namespace belongs to a thread, and setns(2) refuses one that shares its directory.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace %s: %w", c.namespace, os.NewSyscallError("setns", err))
	}
	err = unix.Exec(self, append([]string{"rdmafs"}, c.args...), os.Environ())
	return fmt.Errorf("mount namespace %s has no %s: %w", c.namespace, self, err)
}
