package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/rdmafs/rdmafs/internal/control"
	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/internal/plain"
)

// A file system ends when the last mount of it has gone. Copies of one are made
// by bind mounts and by every new mount namespace: that of a container, of a
// service with PrivateTmp=, of unshare -m.

// holder is where a file system is still mounted.
type holder struct {
	pid  int // of a process there; 0 when it is this mount namespace
	name string
	dir  string
}

func (h holder) String() string {
	if h.pid == 0 {
		return fmt.Sprintf("it is mounted on %s, too", h.dir)
	}
	return fmt.Sprintf("the mount namespace of process %d (%s) still has it, on %s", h.pid, h.name, h.dir)
}

// holderOf finds where the file system with a device number is mounted, as far
// as this process may see. It reads nothing that a stuck process could block.
func holderOf(device string) (holder, bool) {
	own, err := mounttable.Read()
	if dir, found := mounttable.DirOf(device, own); found && err == nil {
		return holder{dir: dir}, true
	}
	names, _ := os.ReadDir("/proc")
	var pids []int
	for _, e := range names {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	for _, pid := range pids {
		all, err := mounttable.Of(pid)
		if dir, found := mounttable.DirOf(device, all); found && err == nil {
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			return holder{pid, string(bytes.TrimSpace(name)), dir}, true
		}
	}
	return holder{}, false
}

// bdiDir has an entry, by device number, for each file system that the kernel
// has, mounted or only in use.
const bdiDir = "/sys/class/bdi"

// mayExist reports whether the kernel has the file system with a device number;
// true where that cannot be found out.
func mayExist(device string) bool {
	_, err := os.Lstat(bdiDir)
	if err == nil {
		_, err = os.Lstat(filepath.Join(bdiDir, device))
		return err == nil
	}
	return true
}

// holderGrace is how long another mount namespace may have a copy before that is
// worth a note: a new one has copies of all mounts, and programs that set up
// containers drop them at once.
const holderGrace = 2 * time.Second

// endsWithin is awaitEnd bounded by d; ended is false when the daemon goes on.
func endsWithin(d time.Duration, dir string, daemon *control.Held) (ended bool, err error) {
	daemon.EndWithin(d)
	err = awaitEnd(dir, daemon)
	hung := new(control.StuckError)
	return !errors.As(err, &hung), err
}

// awaitWritten returns when everything written is safe and, unless others hold
// the file system, which was mounted at dir, when its daemon has ended.
func awaitWritten(dir, device string, daemon *control.Held) error {
	if !mayExist(device) {
		return awaitEnd(dir, daemon)
	}
	switch failed, err := daemon.Sync(device); {
	case errors.Is(err, control.ErrNoDaemon), errors.Is(err, control.ErrEnded):
		return awaitEnd(dir, daemon) // it has ended meanwhile, or is ending
	case err != nil:
		return fmt.Errorf("%s: unmounted, but %w", dir, err)
	case failed != "":
		return fmt.Errorf("%s: unmounted, but %s", dir, failed)
	}
	note := func(why string) error {
		plain.Fprintf(os.Stderr, "rdmafs: note: %s is unmounted and everything written is safe, but %s: its daemon, process %d, serves it until then\n",
			dir, why, daemon.PID())
		return nil
	}
	if h, found := holderOf(device); found && h.pid == 0 {
		return note(h.String())
	}
	if ended, err := endsWithin(holderGrace, dir, daemon); ended {
		return err
	}
	if h, found := holderOf(device); found {
		return note(h.String())
	}
	// The kernel may still be cleaning up.
	if ended, err := endsWithin(control.AnswerTimeout, dir, daemon); ended {
		return err
	}
	if mayExist(device) {
		return note("the kernel still has the file system for somebody (another mount namespace, an open file of one)")
	}
	daemon.EndWithin(0)
	return awaitEnd(dir, daemon)
}
