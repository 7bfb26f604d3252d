package randomops

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Config says what is done.
type Config struct {
	// Mount and Local are empty directories.
	Mount, Local string
	Seed         uint64
	// Ops is how many operations, of all workers together.
	Ops int
	// NoDirect leaves out O_DIRECT, for which a local file system wants aligned data.
	NoDirect bool
}

const (
	workers = 4
	// compareEvery is how many operations are between two comparisons of everything.
	compareEvery = 2500
	// meaningful is how many operations a worker must have for it to matter how many of them succeed: the first find nothing.
	meaningful = 1000
	// told is how many operations before the failed one an error tells.
	told = 40
)

// Run does the operations and returns the first difference of each worker.
func Run(c Config) error {
	errs := make([]error, workers)
	var all sync.WaitGroup
	for n := range workers {
		all.Go(func() {
			name := fmt.Sprint("w", n)
			w := &worker{
				roots: [2]string{filepath.Join(c.Mount, name), filepath.Join(c.Local, name)},
				r:     rand.New(rand.NewPCG(c.Seed, uint64(n))),
				inMap: make(map[uint64]bool), noDirect: c.NoDirect,
			}
			if err := w.run(c.Ops / workers); err != nil {
				errs[n] = fmt.Errorf("worker %d of seed %d: %w; before that:\n%s", n, c.Seed, err, strings.Join(w.log, "\n"))
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// worker does its operations on two directories: the mount's is first.
type worker struct {
	roots [2]string
	r     *rand.Rand
	slots [8]*slot
	// inMap holds local inode numbers of files that were stored to through a mapping after
	// their times were set.
	inMap map[uint64]bool
	// after is set when the run is over, and inMap no more known: times are not compared.
	after    bool
	noDirect bool
	did      int // calls that succeeded
	log      []string
}

func (w *worker) run(ops int) (err error) {
	for _, root := range w.roots {
		if err := os.Mkdir(root, 0o755); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, w.closeAll()) }()
	for n := range ops {
		if err := w.step(n); err != nil {
			return err
		}
		if (n+1)%compareEvery == 0 {
			if err := w.same(); err != nil {
				return err
			}
		}
	}
	if w.did == 0 || ops >= meaningful && w.did < ops/10 {
		return fmt.Errorf("only %d calls of %d operations have succeeded", w.did, ops)
	}
	return w.same()
}

// say records the operation that follows.
func (w *worker) say(format string, args ...any) {
	if len(w.log) == told {
		w.log = append(w.log[:0], w.log[1:]...)
	}
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *worker) step(n int) error {
	ops := [...]func(*worker) error{
		(*worker).open, (*worker).open, (*worker).open, (*worker).close, (*worker).close,
		(*worker).write, (*worker).write, (*worker).write, (*worker).write, (*worker).write, (*worker).write,
		(*worker).read, (*worker).read, (*worker).read, (*worker).read,
		(*worker).truncate, (*worker).truncatePath, (*worker).sync, (*worker).mapped, (*worker).mapped, (*worker).mapped,
		(*worker).statOpen, (*worker).forget,
		(*worker).mkdir, (*worker).rmdir, (*worker).unlink, (*worker).rename, (*worker).rename, (*worker).link, (*worker).symlink,
		(*worker).fifo, (*worker).readlink, (*worker).stat, (*worker).stat, (*worker).chmod, (*worker).chtimes, (*worker).list,
	}
	if err := ops[w.r.IntN(len(ops))](w); err != nil {
		return fmt.Errorf("operation %d: %w", n, err)
	}
	return nil
}

// both does the same on both sides, and returns an error if its results differ.
func (w *worker) both(do func(root string) error) (failed bool, err error) {
	var got [2]error
	for k, root := range w.roots {
		got[k] = do(root)
	}
	return got[1] != nil, w.differ(got)
}
