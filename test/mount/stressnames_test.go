package mount

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/verbs/roce/rocetest"
)

// TestStressNames: names are made, moved and removed through two mounts while
// their server delays calls, cuts connections and crashes. Each actor has names of its own, in directories
// that all share. Every call does what a model says, or fails as it says, and
// afterwards mount, disk and model agree. Where attributes are believed, an
// actor keeps to one mount, and the other's lists are compared; where they are
// not, it uses both. No hidden name stays behind.
func TestStressNames(t *testing.T) {
	first := *stressSeed
	if first == 0 {
		first = rand.Uint64()
	}
	for k, c := range []struct {
		protos [2]string
		roce   bool
		words  string
		both   bool // the actors use both mounts
	}{
		{protos: [2]string{"rdma", "rdma"}, words: "nconnect=2"},
		{protos: [2]string{"tcp", "tcp"}, words: "noac", both: true},
		{protos: [2]string{"rdma", "rdma"}, roce: true, words: "actimeo=0", both: true},
		{protos: [2]string{"rdma", "tcp"}, roce: true},
		{protos: [2]string{"rdma", "tcp"}, words: "fuse=ring"},
		{protos: [2]string{"rdma", "tcp"}, words: stress4 + ",nconnect=2"},
		{protos: [2]string{"tcp", "rdma"}, words: stress4 + ",noac", both: true},
	} {
		seed := first + uint64(k)
		t.Run(fmt.Sprintf("%s+%s,roce=%t,%s,seed=%d", c.protos[0], c.protos[1], c.roce, c.words, seed), func(t *testing.T) {
			w := &faultyCalls{r: rand.New(rand.NewPCG(seed, 0))}
			s := startServer(t, serverOptions{lossy: true, roce: c.roce, faults: &nfsd.Faults{Before: w.disturb, After: w.disturb}}.with4(c.words))
			t.Cleanup(func() { nothingHidden(t, s.export) }) // after the mounts
			for _, name := range sharedDirs {
				if err := os.Mkdir(filepath.Join(s.export, name), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			var mounts []string
			for k, proto := range c.protos {
				if c.roce && k > 0 {
					s.client = rocetest.Loopback(t) // a mount has its address for itself
				}
				mounts = append(mounts, mountRetrying(t, s.source(), s.words(proto, strings.TrimSuffix("timeo=10,"+c.words, ","))).Dir)
			}
			var actors sync.WaitGroup
			for n := range 4 {
				a := &namer{r: rand.New(rand.NewPCG(seed, uint64(n+1))), s: s, w: w, mounts: mounts, home: n % 2, both: c.both,
					export: s.export, id: fmt.Sprintf("n%d.", n), root: newThing('d')}
				for _, name := range sharedDirs {
					a.root.kids[name] = newThing('d')
				}
				actors.Go(func() {
					defer a.closeAll()
					for k := range 3 * *stressSessions {
						if err := a.act(); err != nil {
							t.Errorf("%s act %d: %v; %s", a.id, k, err, strings.Join(a.log[max(0, len(a.log)-40):], "; "))
							return
						}
					}
				})
			}
			actors.Wait()
			t.Logf("%d crashes, %d connections cut", w.crashes.Load(), w.drops.Load())
		})
	}
}

var sharedDirs = []string{"x", "y", "z"}

func nothingHidden(t *testing.T, dir string) {
	err := filepath.WalkDir(dir, func(path string, e iofs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(e.Name(), ".nfs") {
			t.Errorf("left behind: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// thing is a file (f), directory (d) or symbolic link (l) as it should be.
type thing struct {
	kind  byte
	links int
	data  string // content or target
	mode  uint32
	kids  map[string]*thing

	open   *os.File
	at     int    // the mount it is open on
	hidden *thing // the directory in which it has a name because it is open
	hides  int    // files that a directory hides
	// hid: it was hidden, or hid something, once. When the last close has taken
	// such a name away, nobody can tell.
	hid bool
}

func newThing(kind byte) *thing {
	n := &thing{kind: kind, links: 1}
	if kind == 'd' {
		n.kids = map[string]*thing{}
	}
	return n
}

// place is a name in a directory, with what has it, if anything has.
type place struct {
	dir  *thing
	path string
	name string
	is   *thing
}

// namer uses one set of names.
type namer struct {
	r      *rand.Rand
	s      *server
	w      *faultyCalls
	mounts []string
	home   int
	both   bool
	export string
	id     string
	root   *thing
	opened []*thing
	made   int
	log    []string
}

func (a *namer) pick() place {
	top := sharedDirs[a.r.IntN(len(sharedDirs))]
	p := place{dir: a.root.kids[top], path: top}
	for prefix := a.id; ; prefix = "" {
		p.name = fmt.Sprint(prefix, a.r.IntN(4))
		p.is = p.dir.kids[p.name]
		p.path = filepath.Join(p.path, p.name)
		if p.is == nil || p.is.kind != 'd' || a.r.IntN(3) == 0 {
			return p
		}
		p.dir = p.is
	}
}

// mount is where to act on things: where one of them is open.
func (a *namer) mount(things ...*thing) int {
	for _, n := range things {
		if n != nil && n.open != nil {
			return n.at
		}
	}
	if a.both {
		return a.r.IntN(len(a.mounts))
	}
	return a.home
}

// steady makes a call again while it finds a directory that the other mount has
// moved and the kernel cannot lock the place where it knew it (d_splice_alias):
// the lock may be held by another actor's rename, which waits for the server.
func (a *namer) steady(call func() error) (err error) {
	for range 100_000 {
		if err = call(); !a.both || !errors.Is(err, syscall.ESTALE) {
			return err
		}
	}
	return err
}

// try makes a call that should return want. A call whose answer was lost in a
// crash comes again, and may then find its work done.
func (a *namer) try(what string, want error, resent error, call func() error) (done bool, err error) {
	crashes := a.s.Stats().Crashes // one that is ordered already may still lose the reply
	got := a.steady(call)
	a.log = append(a.log, fmt.Sprintf("%s: %v", what, got))
	switch {
	case want == nil && got != nil && resent != nil && errors.Is(got, resent) && uint64(a.w.crashes.Load()) > crashes:
		return true, nil
	case want == nil && got == nil:
		return true, nil
	case want != nil && errors.Is(got, want):
		return false, nil
	}
	return false, fmt.Errorf("%s: %v, want %v", what, got, want)
}

func (a *namer) act() error {
	switch p := a.pick(); a.r.IntN(16) {
	case 0, 1, 2:
		return a.create(p)
	case 3:
		return a.mkdir(p)
	case 4:
		return a.symlink(p)
	case 5, 6:
		return a.link(a.pick(), p)
	case 7, 8:
		return a.unlink(p)
	case 9:
		return a.rmdir(p)
	case 10, 11, 12:
		return a.rename(a.pick(), p)
	case 13:
		return a.change(p)
	case 14:
		return a.useOpened()
	default:
		return a.list(p)
	}
}

func (a *namer) create(p place) error {
	m := a.mount(p.is)
	flags, want := os.O_RDWR|os.O_CREATE, error(nil)
	exclusive := a.r.IntN(2) == 0
	switch {
	case exclusive:
		flags |= os.O_EXCL
		if p.is != nil {
			want = syscall.EEXIST
		}
	case p.is != nil && p.is.kind == 'd':
		want = syscall.EISDIR
	case p.is != nil && p.is.kind == 'l':
		want = syscall.ENOENT // it leads to a directory that is not there
	}
	var f *os.File
	done, err := a.try(fmt.Sprintf("create %s on %d with %#x", p.path, m, flags), want, nil, func() (err error) {
		f, err = os.OpenFile(filepath.Join(a.mounts[m], p.path), flags, 0o640)
		return err
	})
	if err != nil || !done {
		return errors.Join(err, a.check(m, p.path, p.is))
	}
	n := p.is
	if n == nil {
		n = newThing('f')
		a.made++
		n.data, n.mode = fmt.Sprint(a.id, a.made), 0o640
		p.dir.kids[p.name] = n
		if _, err := f.WriteString(n.data); err != nil {
			return errors.Join(err, f.Close())
		}
		if err := f.Sync(); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if n.open == nil && a.r.IntN(2) == 0 {
		n.open, n.at = f, m
		a.opened = append(a.opened, n)
	} else if err := f.Close(); err != nil {
		return err
	}
	return a.check(m, p.path, n)
}

func (a *namer) mkdir(p place) error {
	m, want := a.mount(), error(nil)
	if p.is != nil {
		want = syscall.EEXIST
	}
	done, err := a.try(fmt.Sprintf("mkdir %s on %d", p.path, m), want, syscall.EEXIST, func() error {
		return unix.Mkdir(filepath.Join(a.mounts[m], p.path), 0o750)
	})
	if done {
		p.is = newThing('d')
		p.is.mode = 0o750
		p.dir.kids[p.name] = p.is
	}
	return errors.Join(err, a.check(m, p.path, p.is))
}

func (a *namer) symlink(p place) error {
	m, want := a.mount(), error(nil)
	if p.is != nil {
		want = syscall.EEXIST
	}
	a.made++
	target := fmt.Sprintf("none/%s%d", a.id, a.made)
	done, err := a.try(fmt.Sprintf("symlink %s on %d", p.path, m), want, syscall.EEXIST, func() error {
		return unix.Symlink(target, filepath.Join(a.mounts[m], p.path))
	})
	if done {
		p.is = newThing('l')
		p.is.data, p.is.mode = target, 0o777
		p.dir.kids[p.name] = p.is
	}
	return errors.Join(err, a.check(m, p.path, p.is))
}

func (a *namer) link(from, p place) error {
	m, want := a.mount(), error(nil)
	switch {
	case from.is == nil:
		want = syscall.ENOENT
	case p.is != nil:
		want = syscall.EEXIST
	case from.is.kind == 'd':
		want = syscall.EPERM
	}
	done, err := a.try(fmt.Sprintf("link %s %s on %d", from.path, p.path, m), want, syscall.EEXIST, func() error {
		return unix.Link(filepath.Join(a.mounts[m], from.path), filepath.Join(a.mounts[m], p.path))
	})
	if done {
		p.is = from.is
		p.is.links++
		p.dir.kids[p.name] = p.is
	}
	return errors.Join(err, a.check(m, from.path, from.is), a.check(m, p.path, p.is))
}

// lose takes a name from n in dir.
func (n *thing) lose(dir *thing) {
	n.links--
	if n.open != nil && n.hidden == nil {
		n.hidden, n.hid, dir.hid = dir, true, true
		dir.hides++
	}
}

func (a *namer) unlink(p place) error {
	m, want := a.mount(p.is), error(nil)
	switch {
	case p.is == nil:
		want = syscall.ENOENT
	case p.is.kind == 'd':
		want = syscall.EISDIR
	}
	done, err := a.try(fmt.Sprintf("unlink %s on %d", p.path, m), want, syscall.ENOENT, func() error {
		return unix.Unlink(filepath.Join(a.mounts[m], p.path))
	})
	was := p.is
	if done {
		delete(p.dir.kids, p.name)
		p.is.lose(p.dir)
		p.is = nil
	}
	return errors.Join(err, a.check(m, p.path, p.is), a.others(m, was))
}

// empty reports whether a directory is empty, and whether that is certain.
func (a *namer) empty(n *thing) (empty, sure bool) {
	return len(n.kids) == 0 && n.hides == 0, !n.hid || !a.both
}

func (a *namer) rmdir(p place) error {
	m, want, resent := a.mount(), error(nil), error(syscall.ENOENT)
	switch {
	case p.is == nil:
		want = syscall.ENOENT
	case p.is.kind != 'd':
		want = syscall.ENOTDIR
	default:
		empty, sure := a.empty(p.is)
		if !empty {
			want = syscall.ENOTEMPTY
		} else if !sure {
			return nil
		}
	}
	done, err := a.try(fmt.Sprintf("rmdir %s on %d", p.path, m), want, resent, func() error {
		return unix.Rmdir(filepath.Join(a.mounts[m], p.path))
	})
	if done {
		delete(p.dir.kids, p.name)
		p.is = nil
	}
	return errors.Join(err, a.check(m, p.path, p.is))
}

func below(path, dir string) bool { return strings.HasPrefix(path+"/", dir+"/") }

func (a *namer) rename(from, to place) error {
	m, want := a.mount(to.is), error(nil)
	switch {
	case from.is == nil:
		want = syscall.ENOENT
	case from.is == to.is:
	case below(to.path, from.path):
		want = syscall.EINVAL
		if from.is.kind != 'd' {
			want = syscall.ENOTDIR
		}
	case below(from.path, to.path):
		want = syscall.ENOTEMPTY
	case to.is == nil:
	case from.is.kind == 'd' && to.is.kind != 'd':
		want = syscall.ENOTDIR
	case from.is.kind != 'd' && to.is.kind == 'd':
		want = syscall.EISDIR
	case to.is.kind == 'd':
		empty, sure := a.empty(to.is)
		if !empty {
			want = syscall.ENOTEMPTY
		} else if !sure {
			return nil
		}
	}
	if a.both {
		// The call itself holds that lock: the kernel must know the names before.
		for _, path := range []string{from.path, to.path} {
			var st unix.Stat_t
			_ = a.steady(func() error { return unix.Lstat(filepath.Join(a.mounts[m], path), &st) })
		}
	}
	done, err := a.try(fmt.Sprintf("rename %s %s on %d", from.path, to.path, m), want, syscall.ENOENT, func() error {
		return unix.Rename(filepath.Join(a.mounts[m], from.path), filepath.Join(a.mounts[m], to.path))
	})
	was := to.is
	if done && from.is != to.is {
		if was != nil {
			was.lose(to.dir)
		}
		delete(from.dir.kids, from.name)
		to.dir.kids[to.name] = from.is
		from.is, to.is = nil, from.is
	}
	if err == nil && below(to.path, from.path) && to.path != from.path {
		return a.check(m, from.path, from.is) // to was in it
	}
	return errors.Join(err, a.check(m, from.path, from.is), a.check(m, to.path, to.is), a.others(m, was))
}

// change changes attributes of a file by name.
func (a *namer) change(p place) error {
	if p.is == nil || p.is.kind != 'f' {
		return a.check(a.mount(), p.path, p.is)
	}
	m := a.mount(p.is)
	name := filepath.Join(a.mounts[m], p.path)
	var err error
	switch a.r.IntN(3) {
	case 0:
		p.is.mode = 0o600 | uint32(a.r.IntN(0o100))
		_, err = a.try(fmt.Sprintf("chmod %s on %d", p.path, m), nil, nil, func() error { return unix.Chmod(name, p.is.mode) })
	case 1:
		n := a.r.IntN(len(p.is.data) + 1)
		p.is.data = p.is.data[:n]
		_, err = a.try(fmt.Sprintf("truncate %s on %d to %d", p.path, m, n), nil, nil, func() error { return unix.Truncate(name, int64(n)) })
	case 2:
		at := time.Unix(int64(a.r.IntN(1e9)), int64(a.r.IntN(1e9)))
		_, err = a.try(fmt.Sprintf("utimes %s on %d", p.path, m), nil, nil, func() error { return os.Chtimes(name, at, at) })
	}
	if err == nil {
		err = a.check(m, p.path, p.is)
	}
	if err != nil {
		return err
	}
	var got []byte
	err = a.steady(func() (err error) {
		got, err = os.ReadFile(name)
		return err
	})
	if err == nil && string(got) != p.is.data {
		err = fmt.Errorf("%s reads %q, want %q", p.path, got, p.is.data)
	}
	return err
}

// useOpened reads an open file, and closes it more often than not.
func (a *namer) useOpened() error {
	if len(a.opened) == 0 {
		return nil
	}
	k := a.r.IntN(len(a.opened))
	n := a.opened[k]
	a.log = append(a.log, fmt.Sprintf("read open %q", n.data))
	got, err := io.ReadAll(io.NewSectionReader(n.open, 0, 1<<16))
	if err != nil || string(got) != n.data {
		return fmt.Errorf("open file reads %q, %v, want %q", got, err, n.data)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(n.open.Fd()), &st); err != nil || int(st.Nlink) != n.links {
		return fmt.Errorf("open file has %d links, %v, want %d", st.Nlink, err, n.links)
	}
	if a.r.IntN(3) == 0 {
		return nil
	}
	a.opened = slices.Delete(a.opened, k, k+1)
	a.log = append(a.log, "closed")
	return n.close()
}

func (n *thing) close() error {
	if n.hidden != nil {
		n.hidden.hides--
		n.hidden = nil
	}
	f := n.open
	n.open = nil
	return f.Close()
}

func (a *namer) closeAll() {
	for _, n := range a.opened {
		n.open.Close()
	}
}

// list compares what a directory lists with what it should.
func (a *namer) list(p place) error {
	path := filepath.Dir(p.path)
	m := a.r.IntN(len(a.mounts))
	var f *os.File
	err := a.steady(func() (err error) {
		f, err = os.Open(filepath.Join(a.mounts[m], path))
		return err
	})
	if !a.both && m != a.home && p.dir != a.root.kids[path] {
		// This mount may still believe other names of what it is in.
		if err == nil {
			err = f.Close()
		} else if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ESTALE) {
			err = nil
		}
		return err
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var got []string
	for {
		l, err := f.Readdirnames(1 + a.r.IntN(20))
		for _, name := range l {
			if !strings.HasPrefix(name, ".nfs") && (p.dir != a.root.kids[path] || strings.HasPrefix(name, a.id)) {
				got = append(got, name)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	slices.Sort(got)
	if want := slices.Sorted(maps.Keys(p.dir.kids)); !slices.Equal(got, want) {
		return fmt.Errorf("%s on %d lists %q, want %q", path, m, got, want)
	}
	return nil
}

// others checks the names that n has left.
func (a *namer) others(m int, n *thing) error {
	if n == nil || n.links == 0 {
		return nil
	}
	var errs []error
	var walk func(dir *thing, path string)
	walk = func(dir *thing, path string) {
		for name, kid := range dir.kids {
			switch here := filepath.Join(path, name); {
			case kid == n:
				errs = append(errs, a.check(m, here, n))
			case kid.kind == 'd':
				walk(kid, here)
			}
		}
	}
	walk(a.root, "")
	return errors.Join(errs...)
}

// check compares a name on a mount and on the disk with what it should be.
func (a *namer) check(m int, path string, n *thing) error {
	var got, disk unix.Stat_t
	gerr := a.steady(func() error { return unix.Lstat(filepath.Join(a.mounts[m], path), &got) })
	derr := unix.Lstat(filepath.Join(a.export, path), &disk)
	if n == nil {
		if gerr != syscall.ENOENT || derr != syscall.ENOENT {
			return fmt.Errorf("%s is there: on mount %d %v, on disk %v", path, m, gerr, derr)
		}
		return nil
	}
	if gerr != nil || derr != nil {
		return fmt.Errorf("%s: on mount %d %v, on disk %v", path, m, gerr, derr)
	}
	kind := map[byte]uint32{'f': unix.S_IFREG, 'd': unix.S_IFDIR, 'l': unix.S_IFLNK}[n.kind]
	if disk.Mode != kind|n.mode || n.kind != 'd' && disk.Size != int64(len(n.data)) {
		return fmt.Errorf("%s on disk: mode %#o, size %d, want %#o and %q", path, disk.Mode, disk.Size, kind|n.mode, n.data)
	}
	links := n.links
	if n.kind == 'd' {
		links = int(disk.Nlink)
	} else if n.hidden != nil && n.at != m {
		links++
	}
	if n.hid && n.hidden == nil && n.kind == 'f' && int(got.Nlink) == links+1 {
		links++ // it has been closed, but that name may not be gone yet
	}
	switch {
	case got.Mode != disk.Mode || got.Size != disk.Size:
		return fmt.Errorf("%s on mount %d: mode %#o, size %d, on disk %#o, %d", path, m, got.Mode, got.Size, disk.Mode, disk.Size)
	case int(got.Nlink) != links:
		return fmt.Errorf("%s on mount %d: %d links, want %d", path, m, got.Nlink, links)
	case !n.hid && (got.Mtim != disk.Mtim || got.Ctim != disk.Ctim):
		return fmt.Errorf("%s on mount %d: mtime %v, ctime %v, on disk %v, %v", path, m, got.Mtim, got.Ctim, disk.Mtim, disk.Ctim)
	}
	if n.kind == 'l' {
		var target string
		err := a.steady(func() (err error) {
			target, err = os.Readlink(filepath.Join(a.mounts[m], path))
			return err
		})
		if err != nil || target != n.data {
			return fmt.Errorf("%s leads to %q, %v, want %q", path, target, err, n.data)
		}
	}
	return nil
}
