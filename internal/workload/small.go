package workload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// small is the directory of the small files.
const small = "small"

func fileName(dir string, i int) string { return fmt.Sprintf("%s/file-%06d", dir, i) }

func (r *Run) create(name string, data []byte) error {
	f, err := r.Place.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if len(data) > 0 {
		if _, err := f.WriteAt(data, 0); err != nil {
			_ = f.Close()
			return err
		}
	}
	return f.Close()
}

// entries are those of a directory, none if it does not exist.
func (r *Run) entries(dir string) ([]fs.DirEntry, error) {
	list, err := r.Place.ReadDir(dir)
	return list, gone(err)
}

// empty makes the directory, or empties it.
func (r *Run) empty(dir string) error {
	if err := r.removeAll(dir); err != nil {
		return err
	}
	return r.Place.Mkdir(dir)
}

// have makes files with data in the directory until there are n, or there is no more
// time, unless there are already, and sets r.files.
func (r *Run) have(dir string, n int, data []byte) (err error) {
	if r.files, err = r.count(dir, n); err != nil || r.enough(n) {
		return err
	}
	if err := r.empty(dir); err != nil {
		return err
	}
	for r.files = 0; r.files < n && (r.files == 0 || r.more()); r.files++ {
		if err := r.create(fileName(dir, r.files), data); err != nil {
			return err
		}
	}
	return nil
}

// enough: with little time what an earlier workload had time to make is enough.
func (r *Run) enough(n int) bool { return r.files == n || r.files > 0 && r.Size.Limit > 0 }

// count is how many of the first n files there are; 0 if there is anything else.
func (r *Run) count(dir string, n int) (int, error) {
	list, err := r.entries(dir)
	if err != nil || len(list) > n {
		return 0, err
	}
	for _, e := range list {
		if !strings.HasPrefix(e.Name(), "file-") {
			return 0, nil
		}
	}
	return len(list), nil
}

func (r *Run) emptySmall() error { return r.empty(small) }

// haveSmall has small files of a page.
func (r *Run) haveSmall() error { return r.have(small, r.Size.Files, make([]byte, page)) }

func createFiles(data []byte) func(r *Run) error {
	return func(r *Run) error {
		return r.each(r.Size.Files, func(i int) error { return r.create(fileName(small, i), data) })
	}
}

func (r *Run) stat() error {
	return r.each(r.files, func(i int) error {
		_, err := r.Place.Lstat(fileName(small, i))
		return err
	})
}

// statWarm does it once unmeasured.
func (r *Run) statWarm() error {
	for i := 0; i < r.files && r.more(); i++ {
		if _, err := r.Place.Lstat(fileName(small, i)); err != nil {
			return err
		}
	}
	return r.stat()
}

func (r *Run) openReadClose() error {
	b := make([]byte, page)
	return r.each(r.files, func(i int) error {
		f, err := r.Place.OpenFile(fileName(small, i), os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		err = transfer(f, b, 0, false)
		return errors.Join(err, f.Close())
	})
}

func (r *Run) rename() error {
	return r.each(r.files, func(i int) error {
		return r.Place.Rename(fileName(small, i), fmt.Sprintf("%s/renamed-%06d", small, i))
	})
}

func (r *Run) unlink() error {
	return r.each(r.files, func(i int) error { return r.Place.Remove(fileName(small, i)) })
}

const dirs = "dirs"

func dirName(i int) string { return fmt.Sprintf("%s/dir-%06d", dirs, i) }

func (r *Run) emptyDirs() error { return r.empty(dirs) }

func (r *Run) mkdir() error {
	return r.each(r.Size.Files, func(i int) error { return r.Place.Mkdir(dirName(i)) })
}

// haveDirs has directories to remove.
func (r *Run) haveDirs() error {
	list, err := r.entries(dirs)
	if err != nil {
		return err
	}
	if r.files = len(list); r.enough(r.Size.Files) {
		return nil
	}
	if err := r.empty(dirs); err != nil {
		return err
	}
	for r.files = 0; r.files < r.Size.Files && (r.files == 0 || r.more()); r.files++ {
		if err := r.Place.Mkdir(dirName(r.files)); err != nil {
			return err
		}
	}
	return nil
}

// rmdir leaves what there was no time for; the next to need an empty directory
// removes it.
func (r *Run) rmdir() error {
	return r.each(r.files, func(i int) error { return r.Place.Rmdir(dirName(i)) })
}
