package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/rdmafs/rdmafs/cmd/rdmafs/plain"
	"github.com/rdmafs/rdmafs/fs"
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
// as this process may see. It asks no process that may be stuck on a mount.
func holderOf(device string) (holder, bool) {
	own, err := fs.Mounts()
	if dir, found := mountOf(device, own); found && err == nil {
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
		all, err := fs.MountsOf(pid)
		if dir, found := mountOf(device, all); found && err == nil {
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			return holder{pid, string(bytes.TrimSpace(name)), dir}, true
		}
	}
	return holder{}, false
}

func mountOf(device string, table []fs.MountEntry) (dir string, found bool) {
	for _, m := range table {
		if m.Device == device {
			return m.Dir, true
		}
	}
	return "", false
}

// alive tells whether the kernel still has the file system with a device
// number: it may be held by what cannot be seen from here.
func alive(device string) bool {
	_, err := os.Lstat("/sys/class/bdi/" + device)
	return err == nil
}

// awaitWritten returns when everything written is safe and, unless others hold
// the file system, which was mounted at dir, when its daemon has ended.
func awaitWritten(dir, device string, daemon *held) error {
	if _, held := holderOf(device); !held && !alive(device) {
		return awaitEnd(dir, daemon)
	}
	switch wrong, err := syncDevice(dir, device); {
	case errors.Is(err, errNoDaemon), errors.Is(err, errEnded):
		return awaitEnd(dir, daemon) // it has ended meanwhile, or ends
	case err != nil:
		return fmt.Errorf("%s: unmounted, but %w", dir, err)
	case wrong != "":
		return fmt.Errorf("%s: unmounted, but %s", dir, wrong)
	}
	pid, _ := peer(daemon.Conn)
	note := func(why string) error {
		plain.Fprintf(os.Stderr, "rdmafs: note: %s is unmounted and everything written is safe, but %s: its daemon, process %d, serves it until then\n",
			dir, why, pid)
		return nil
	}
	if h, held := holderOf(device); held {
		return note(h.String())
	}
	if alive(device) {
		// Perhaps just for as long as the kernel takes to clean up.
		_ = daemon.SetReadDeadline(time.Now().Add(patience))
	}
	err := awaitEnd(dir, daemon)
	if hung := new(stuckError); errors.As(err, &hung) && alive(device) {
		return note("the kernel still has the file system for somebody (another mount namespace, an open file of one)")
	}
	return err
}
