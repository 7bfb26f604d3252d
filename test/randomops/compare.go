package randomops

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

func (w *worker) list() error {
	name := w.name()
	if w.r.IntN(2) == 0 {
		name = "."
	}
	w.say("list %s", name)
	k, names := 0, [2][]string{}
	_, err := w.both(func(root string) (err error) {
		k++
		names[k-1], err = list(filepath.Join(root, name))
		return err
	})
	if err == nil && !slices.Equal(names[0], names[1]) {
		err = fmt.Errorf("names %q, locally %q", names[0], names[1])
	}
	return err
}

// list is the names in dir, without those of removed files.
func list(dir string) (names []string, err error) {
	// Not a directory is an error before a FIFO is waited for.
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if names, err = d.Readdirnames(-1); err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, ".nfs") })
	slices.Sort(names)
	return names, nil
}

func (w *worker) same() error {
	w.say("compare all")
	return w.sameBelow(".")
}

// sameBelow compares a tree by names, attributes and contents.
func (w *worker) sameBelow(dir string) error {
	var names [2][]string
	for k, root := range w.roots {
		var err error
		if names[k], err = list(filepath.Join(root, dir)); err != nil {
			return err
		}
	}
	if !slices.Equal(names[0], names[1]) {
		return fmt.Errorf("%s: names %q, locally %q", dir, names[0], names[1])
	}
	for _, name := range names[1] {
		path := filepath.Join(dir, name)
		if err := w.sameEntry(path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func (w *worker) sameEntry(path string) error {
	var st [2]unix.Stat_t
	for k, root := range w.roots {
		if err := unix.Lstat(filepath.Join(root, path), &st[k]); err != nil {
			return err
		}
	}
	if err := w.sameStat(&st); err != nil {
		return err
	}
	var got [2]error
	var data [2][]byte
	for k, root := range w.roots {
		full := filepath.Join(root, path)
		switch st[1].Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			var target string
			target, got[k] = os.Readlink(full)
			data[k] = []byte(target)
		case unix.S_IFREG:
			data[k], got[k] = os.ReadFile(full)
		}
	}
	if err := errors.Join(got[:]...); err != nil {
		return err
	}
	if err := sameBytes(data[0], data[1]); err != nil {
		return err
	}
	if st[1].Mode&unix.S_IFMT == unix.S_IFDIR {
		return w.sameBelow(path)
	}
	return nil
}

// Same compares both directories after a run, by what another way to the same export, and
// the local directory, have: all but times.
func Same(mount, local string) error {
	for n := range workers {
		name := fmt.Sprint("w", n)
		w := &worker{roots: [2]string{filepath.Join(mount, name), filepath.Join(local, name)}, after: true}
		if err := w.sameBelow("."); err != nil {
			return fmt.Errorf("%s: %w", w.roots[0], err)
		}
	}
	return nil
}
