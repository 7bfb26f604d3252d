package workload

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"time"
)

// tree is where a tree like that of a program's source is unpacked.
const tree = "tree"

// dirEach is after how many files of the tree a directory follows.
const dirEach = 12

// node is an entry of the tree.
type node struct {
	name string
	dir  bool
	size int
}

// nodes is a tree of n files, each directory before what is in it: files of some
// hundred bytes to 64 KiB, 9 KiB in the middle and three levels deep. It is always the
// same.
func nodes(n int) []node {
	g := rand.New(rand.NewPCG(1, 1))
	all := []node{{name: tree, dir: true}}
	dirs := []string{tree}
	at := tree
	for i := range n {
		if i%dirEach == 0 {
			parent := dirs[0]
			if i%(dirEach*dirEach) != 0 {
				parent = dirs[len(dirs)-1-(i/dirEach)%dirEach%2]
			}
			at = fmt.Sprintf("%s/dir-%d", parent, i/dirEach)
			if i%(dirEach*dirEach) == 0 {
				dirs = dirs[:1]
			}
			if len(dirs) < 3 {
				dirs = append(dirs, at)
			}
			all = append(all, node{name: at, dir: true})
		}
		size := 200 << g.IntN(9)
		all = append(all, node{name: fmt.Sprintf("%s/source-%d", at, i), size: size/2 + g.IntN(size)})
	}
	return all
}

// packed is what files of the tree contain.
func packed() []byte {
	b := make([]byte, 128<<10)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

// packedAt is when the tree was packed.
var packedAt = time.Unix(1700000000, 0)

// unpack makes an entry as tar does.
func (r *Run) unpack(n node, data []byte) error {
	if n.dir {
		return r.Place.Mkdir(n.name)
	}
	f, err := r.Place.OpenFile(n.name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(data[:n.size], 0); err == nil {
		err = r.Place.Chtimes(n.name, packedAt)
	}
	return errors.Join(err, f.Close())
}

func (r *Run) withoutTree() error { return r.removeAll(tree) }

func (r *Run) untar() error {
	all, data := nodes(r.Size.TreeFiles), packed()
	return r.each(len(all), func(i int) error { return r.unpack(all[i], data) })
}

// haveTree unpacks the tree unless it is there, and sets r.files.
func (r *Run) haveTree() error {
	all, data := nodes(r.Size.TreeFiles), packed()
	there := 0
	err := r.walk(tree, func(string, bool) error { there++; return nil })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if r.files = there; r.enough(len(all)) {
		return nil
	}
	if err := r.removeAll(tree); err != nil {
		return err
	}
	for r.files = 0; r.files < len(all) && (r.files == 0 || r.more()); r.files++ {
		if err := r.unpack(all[r.files], data); err != nil {
			return err
		}
	}
	return nil
}

// walk calls f for each entry below a directory, and the directory itself after all
// that is in it.
func (r *Run) walk(dir string, f func(name string, dir bool) error) error {
	l, err := r.Place.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range l {
		name := dir + "/" + e.Name()
		if e.IsDir() {
			err = r.walk(name, f)
		} else {
			err = f(name, false)
		}
		if err != nil {
			return err
		}
	}
	return f(dir, true)
}

// errEnough ends a walk for which there is no more time.
var errEnough = errors.New("no more time")

// tar reads the whole tree as tar -c does.
func (r *Run) tar() error {
	b := make([]byte, 128<<10)
	return r.measure(func() (n int, err error) {
		err = r.walk(tree, func(name string, dir bool) error {
			if n > 0 && !r.more() {
				return errEnough
			}
			n++
			info, err := r.Place.Lstat(name)
			if err != nil || dir {
				return err
			}
			f, err := r.Place.OpenFile(name, os.O_RDONLY, 0)
			if err != nil {
				return err
			}
			if _, err = f.ReadAt(b[:min(int(info.Size()), len(b))], 0); err == io.EOF {
				err = nil
			}
			return errors.Join(err, f.Close())
		})
		return n, enough(err)
	})
}

func enough(err error) error {
	if err == errEnough {
		return nil
	}
	return err
}

// rmTree removes the tree as rm -rf does.
func (r *Run) rmTree() error {
	return r.measure(func() (n int, err error) {
		err = r.walk(tree, func(name string, dir bool) error {
			if n > 0 && !r.more() {
				return errEnough
			}
			n++
			return r.remove(name, dir)
		})
		return n, enough(err)
	})
}

func (r *Run) remove(name string, dir bool) error {
	if dir {
		return r.Place.Rmdir(name)
	}
	return r.Place.Remove(name)
}

// removeAll removes a directory with all that is in it, if there is one.
func (r *Run) removeAll(dir string) error {
	return gone(r.walk(dir, func(name string, dir bool) error { return gone(r.remove(name, dir)) }))
}

// Clean removes whatever workloads have left in the place.
func Clean(p Place) error {
	r := &Run{Place: p}
	errs := []error{gone(p.Remove(large))}
	for _, dir := range []string{small, list, dirs, tree, clone} {
		errs = append(errs, r.removeAll(dir))
	}
	return errors.Join(errs...)
}
