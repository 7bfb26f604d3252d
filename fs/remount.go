package fs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// ErrRemountPrivilege: only root may change this of a mount.
var ErrRemountPrivilege = errors.New("only root may change this of a mount: unmount, and mount again")

// atimeFlags are those of which the kernel keeps what a remount does not name.
const atimeFlags = unix.MS_NOATIME | unix.MS_RELATIME

// plan is how f is mounted, or mounted again with other words.
func (f *FS) plan(readOnly bool, words []string) mountPlan {
	p := mountPlan{source: f.cfg.Source, dir: f.dir, words: slices.Clone(words), allowOther: f.cfg.AllowOther, device: f.cfg.Device, guarded: f.cfg.AutoUnmount}
	if readOnly {
		p.words = append(p.words, "ro")
	}
	if f.cfg.DefaultPermissions {
		p.words = append(p.words, "default_permissions")
	}
	p.words = append(p.words, f.noDevices()...)
	return p
}

// Remount makes the mount read-only or writable, and gives it the flags of words, which are all
// of Config.Options and what is to replace them, in this order. Before it becomes read-only everything written
// is made safe on the server. It fails with EBUSY while files are open for writing. Whatever it
// fails with, nothing has changed. It must not run twice at once.
//
// Where this process may not change the kernel's flags, the cache refuses changes by itself.
func (f *FS) Remount(ctx context.Context, readOnly bool, words []string) error {
	p := f.plan(readOnly, words)
	flags, _ := p.directOptions()
	if ro, known := f.kernelReadOnly(); known {
		// Somebody may have told the kernel without asking us.
		f.flags = f.flags &^ unix.MS_RDONLY
		if ro {
			f.flags |= unix.MS_RDONLY
		}
	}
	was := f.flags
	if (flags^was)&unix.MS_DIRSYNC != 0 {
		return fmt.Errorf("dirsync cannot be changed: unmount, and mount again")
	}
	if err := f.setFlags(flags); err != nil {
		return err
	}
	if !readOnly {
		f.cache.SetReadWrite()
		return nil
	}
	if err := f.cache.SetReadOnly(ctx); err != nil {
		return errors.Join(err, f.setFlags(was))
	}
	return nil
}

// setFlags gives the mount the kernel's flags. Without the right to do that, it succeeds if the
// cache can do without: it can refuse what the kernel lets through, not the reverse.
func (f *FS) setFlags(flags uintptr) error {
	changed := flags ^ f.flags
	if changed == 0 {
		return nil
	}
	dir, err := f.Place()
	if err != nil {
		return err
	}
	set := flags
	if changed&atimeFlags != 0 && flags&atimeFlags == 0 {
		set |= unix.MS_RELATIME
	}
	err = unix.Mount(f.cfg.Source, dir, "", unix.MS_REMOUNT|set, "")
	switch {
	case err == nil:
		f.flags = flags
		return nil
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%s: files on it are open for writing (fuser -vm %s shows whose): %w", dir, dir, err)
	case !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES):
		return &os.PathError{Op: "remount", Path: dir, Err: err}
	case changed != unix.MS_RDONLY || flags&unix.MS_RDONLY == 0:
		return fmt.Errorf("%s: %w", dir, ErrRemountPrivilege)
	}
	return nil
}

// ReadOnly reports whether the mount is read-only, by the cache or, as far as the mount table
// shows it, by the kernel, which somebody may have told so without asking us.
func (f *FS) ReadOnly() bool {
	if f.cache.ReadOnly() {
		return true
	}
	ro, _ := f.kernelReadOnly()
	return ro
}

// kernelReadOnly is what the mount table says.
func (f *FS) kernelReadOnly() (ro, known bool) {
	if f.Device() == "" {
		return false, false
	}
	all, _ := mounttable.Read()
	k := slices.IndexFunc(all, func(e mounttable.Entry) bool { return e.Device == f.Device() })
	return k >= 0 && all[k].ReadOnly, k >= 0
}
