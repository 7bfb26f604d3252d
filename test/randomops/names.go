package randomops

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// name is a random path, of one to three components.
func (w *worker) name() string {
	path := w.last()
	for w.r.IntN(3) == 0 && len(path) < 9 {
		path = filepath.Join(fmt.Sprint("d", w.r.IntN(3)), path)
	}
	return path
}

func (w *worker) last() string {
	if w.r.IntN(3) == 0 {
		return fmt.Sprint("d", w.r.IntN(3))
	}
	return fmt.Sprint("f", w.r.IntN(6))
}

// differ is nil if both errors are the same error number, or none, which counts as a success.
func (w *worker) differ(got [2]error) error {
	var no [2]syscall.Errno
	for k, err := range got {
		if err != nil && !errors.As(err, &no[k]) {
			return err
		}
	}
	if no[0] != no[1] {
		return fmt.Errorf("on the mount %v, locally %v", got[0], got[1])
	}
	if no[0] == 0 {
		w.did++
	}
	return nil
}

// emptied is both for what needs an empty directory, which it is not on the mount while
// removed files of it are open.
func (w *worker) emptied(do func(root string) error) error {
	var got [2]error
	for k, root := range w.roots {
		got[k] = do(root)
	}
	if notEmpty(got[0]) && got[1] == nil && w.opened() {
		w.say("close all")
		if err := w.closeAll(); err != nil {
			return err
		}
		got[0] = do(w.roots[0])
	}
	return w.differ(got)
}

func notEmpty(err error) bool { return errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) }

func (w *worker) mkdir() error {
	name := w.name()
	w.say("mkdir %s", name)
	_, err := w.both(func(root string) error { return unix.Mkdir(filepath.Join(root, name), 0o755) })
	return err
}

func (w *worker) rmdir() error {
	name := w.name()
	w.say("rmdir %s", name)
	return w.emptied(func(root string) error { return unix.Rmdir(filepath.Join(root, name)) })
}

func (w *worker) unlink() error {
	name := w.name()
	w.say("unlink %s", name)
	_, err := w.both(func(root string) error { return unix.Unlink(filepath.Join(root, name)) })
	return err
}

func (w *worker) rename() error {
	from, to := w.name(), w.name()
	w.say("rename %s to %s", from, to)
	return w.emptied(func(root string) error { return unix.Rename(filepath.Join(root, from), filepath.Join(root, to)) })
}

func (w *worker) link() error {
	from, to := w.name(), w.name()
	w.say("link %s as %s", from, to)
	_, err := w.both(func(root string) error { return unix.Link(filepath.Join(root, from), filepath.Join(root, to)) })
	return err
}

func (w *worker) symlink() error {
	if w.r.IntN(3) > 0 {
		return nil
	}
	target, name := w.last(), w.name()
	w.say("symlink to %s as %s", target, name)
	_, err := w.both(func(root string) error { return unix.Symlink(target, filepath.Join(root, name)) })
	return err
}

func (w *worker) fifo() error {
	if w.r.IntN(20) > 0 {
		return nil
	}
	name := w.name()
	w.say("mkfifo %s", name)
	_, err := w.both(func(root string) error { return unix.Mkfifo(filepath.Join(root, name), 0o644) })
	return err
}

func (w *worker) readlink() error {
	name := w.name()
	w.say("readlink %s", name)
	var targets [2]string
	k := 0
	_, err := w.both(func(root string) error {
		b := make([]byte, 256)
		n, err := unix.Readlink(filepath.Join(root, name), b)
		targets[k] = string(b[:max(n, 0)])
		k++
		return err
	})
	if err == nil && targets[0] != targets[1] {
		err = fmt.Errorf("target %q, locally %q", targets[0], targets[1])
	}
	return err
}

func (w *worker) chmod() error {
	name, mode := w.name(), [...]uint32{0o600, 0o644, 0o755, 0o700, 0o777}[w.r.IntN(5)]
	w.say("chmod %s to %#o", name, mode)
	_, err := w.both(func(root string) error {
		path := filepath.Join(root, name)
		if mode&0o100 == 0 {
			// A directory must stay searchable.
			var st unix.Stat_t
			if err := unix.Stat(path, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
				return unix.Chmod(path, 0o700)
			}
		}
		return unix.Chmod(path, mode)
	})
	if err != nil {
		return err
	}
	return w.statOf(name)
}

// past bounds the times that are set: later ones are the clock's.
const past = 1_000_000_000

func (w *worker) chtimes() error {
	name := w.name()
	times := []unix.Timespec{{Sec: w.r.Int64N(past)}, {Sec: w.r.Int64N(past), Nsec: w.r.Int64N(1e9)}}
	w.say("set times of %s to %v", name, times)
	failed, err := w.both(func(root string) error { return unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(root, name), times, 0) })
	if err != nil || failed {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(w.roots[1], name), &st); err != nil {
		return err
	}
	delete(w.inMap, st.Ino)
	return w.statOf(name)
}

func (w *worker) stat() error { return w.statOf(w.name()) }

// statOf compares what stat and lstat say.
func (w *worker) statOf(name string) error {
	w.say("stat %s", name)
	for _, flags := range []int{0, unix.AT_SYMLINK_NOFOLLOW} {
		var st [2]unix.Stat_t
		k := 0
		failed, err := w.both(func(root string) error {
			k++
			return unix.Fstatat(unix.AT_FDCWD, filepath.Join(root, name), &st[k-1], flags)
		})
		if err != nil {
			return err
		}
		if failed {
			continue
		}
		if err := w.sameStat(&st); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (w *worker) sameStat(st *[2]unix.Stat_t) error {
	a, b := &st[0], &st[1]
	kind := b.Mode & unix.S_IFMT
	switch {
	case a.Mode != b.Mode && !(kind == unix.S_IFLNK && a.Mode&unix.S_IFMT == kind):
		return fmt.Errorf("mode %#o, locally %#o", a.Mode, b.Mode)
	case a.Uid != b.Uid || a.Gid != b.Gid:
		return fmt.Errorf("owner %d, %d, locally %d, %d", a.Uid, a.Gid, b.Uid, b.Gid)
	case kind == unix.S_IFDIR:
		return nil // changes in a directory, and names .nfs… in it, are at other times
	case kind != unix.S_IFIFO && a.Size != b.Size:
		return fmt.Errorf("size %d, locally %d", a.Size, b.Size)
	case a.Nlink != b.Nlink && !w.isOpen(b.Ino):
		return fmt.Errorf("%d links, locally %d", a.Nlink, b.Nlink)
	case kind == unix.S_IFREG && !w.after && !w.inMap[b.Ino] && (a.Mtim.Sec < past || b.Mtim.Sec < past) && a.Mtim != b.Mtim:
		return fmt.Errorf("modified at %v, locally %v", a.Mtim, b.Mtim)
	}
	return nil
}
