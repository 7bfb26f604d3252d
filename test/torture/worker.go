package torture

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// job is what a worker is to do.
type job struct {
	Kind string
	// Dir is on the mount; it exists.
	Dir string
	// Number distinguishes the workers of a cell, and their files.
	Number int
	Seed   uint64
	Files  int
	// Fork makes children inherit and close descriptors while they are written to.
	Fork bool
	// Shared is a file that others use too; each keeps to its own part, under a
	// lock.
	Shared string
}

// worker uses a mount.
type worker struct {
	job
	eventWriter
	stop atomic.Bool
	// next is the number of the next file.
	files atomic.Int32
}

// RunWorker is the main function of a worker.
func RunWorker(arg string) error {
	w := &worker{}
	if err := json.Unmarshal([]byte(arg), &w.job); err != nil {
		return err
	}
	if err := os.Chdir(w.Dir); err != nil {
		return err
	}
	go w.runOrders()
	syscall.Umask(0)
	var all sync.WaitGroup
	for n := range w.Files {
		r := random(w.Seed, w.Kind, fmt.Sprint(w.Number, n))
		all.Go(func() {
			if w.Kind == "names" {
				w.useNames(n, r)
				return
			}
			for !w.stop.Load() {
				if !w.useFile(r) {
					return
				}
			}
		})
	}
	all.Wait()
	w.emit(evFinish)
	return nil
}

// runOrders takes orders from standard input: at a byte the worker executes itself
// anew, at the end it stops. It reads no byte ahead, so that none is lost.
func (w *worker) runOrders() {
	b := make([]byte, 1)
	for {
		if _, err := io.ReadFull(os.Stdin, b); err != nil {
			w.stop.Store(true)
			return
		}
		w.again()
	}
}

// again executes the program anew while writes are under way. Another number
// makes the files others.
func (w *worker) again() {
	next := w.job
	next.Number += 1000
	arg, err := json.Marshal(next)
	self := ""
	if err == nil {
		self, err = os.Executable()
	}
	if err == nil {
		err = syscall.Exec(self, []string{"torture", "worker", string(arg)}, os.Environ())
	}
	w.emit(evBad, "exec:", err)
}

// base is added to the numbers of files after an exec, so that they are new.
func (w *worker) base() int { return w.Number / 1000 * 1000 }

// pause waits a little after an error: what failed is unlikely to work at once.
func pause() { time.Sleep(5 * time.Millisecond) }

// lasting reports whether an error means that this mount is gone for good.
func lasting(err error) bool {
	switch number(err) {
	case syscall.ENOTCONN, syscall.ECONNABORTED, syscall.ENODEV, syscall.ECONNREFUSED:
		return true
	}
	return false
}

// child runs a short process that inherits f and closes it.
func (w *worker) child(f *os.File) {
	cmd := exec.Command("/bin/true")
	cmd.ExtraFiles = []*os.File{f}
	_ = cmd.Run()
}

// between is a number of units from low to high, in bytes.
func between(r *rand.Rand, low, high int) int64 {
	return int64(low+r.IntN(high-low+1)) * unit
}

// readEvents hands on each line of a worker.
func readEvents(r io.Reader, each func(string)) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		each(s.Text())
	}
}
