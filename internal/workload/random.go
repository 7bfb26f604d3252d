package workload

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// places are those of random I/O, the same in every run.
func places(seed uint64, mib int) func() int64 {
	g := rand.New(rand.NewPCG(1, seed))
	return func() int64 { return int64(g.IntN(mib*chunk/page)) * page }
}

// randomOne has one request after the other, from one thread.
func randomOne(write bool) func(r *Run) error {
	return func(r *Run) error {
		return r.withFile(randomFlags(write), page, func(file File, b []byte) error {
			at := places(0, r.mib)
			return r.measure(func() (n int, err error) {
				last := time.Now()
				for end := last.Add(r.Size.Random); last.Before(end) && r.ctx.Err() == nil; n++ {
					if err := transfer(file, b, at(), write); err != nil {
						return 0, err
					}
					now := time.Now()
					r.res.Latencies = append(r.res.Latencies, now.Sub(last))
					last = now
				}
				return n, nil
			})
		})
	}
}

// randomThreads has one request from each of n threads.
func randomThreads(n int, write bool) func(r *Run) error {
	return func(r *Run) error {
		return r.withFile(randomFlags(write), n*page, func(file File, b []byte) error {
			if _, ok := file.(*osFile); ok {
				// A thread in a system call keeps its place among those that may run Go
				// code for a while; there is to be one for each. Without system calls
				// the client runs in this process, and is left as it is.
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n + runtime.GOMAXPROCS(0)))
			}
			return r.measure(func() (int, error) {
				var done atomic.Int64
				errs := make([]error, n)
				end := time.Now().Add(r.Size.Random)
				var threads sync.WaitGroup
				runThread := func(k int) {
					defer threads.Done()
					at, own, count := places(uint64(k), r.mib), b[k*page:][:page], int64(0)
					for count == 0 || r.ctx.Err() == nil && time.Now().Before(end) {
						if errs[k] = transfer(file, own, at(), write); errs[k] != nil {
							return
						}
						count++
					}
					done.Add(count)
				}
				threads.Add(n)
				for k := range n {
					go runThread(k)
				}
				threads.Wait()
				return int(done.Load()), errors.Join(errs...)
			})
		})
	}
}

// randomQueue keeps depth requests in flight by the kernel's asynchronous I/O.
func randomQueue(depth int, write bool) func(r *Run) error {
	return func(r *Run) error {
		op, at := uint16(opRead), places(0, r.mib)
		if write {
			op = opWrite
		}
		end := time.Time{}
		return r.queued(op, randomFlags(write)&^unix.O_DIRECT, depth, page, func() (int64, bool) {
			now := time.Now()
			if end.IsZero() {
				end = now.Add(r.Size.Random)
			}
			return at(), now.Before(end) && r.ctx.Err() == nil
		})
	}
}

func randomFlags(write bool) int {
	if write {
		return os.O_WRONLY | unix.O_DIRECT
	}
	return os.O_RDONLY | unix.O_DIRECT
}

func transfer(file File, b []byte, at int64, write bool) error {
	f := file.ReadAt
	if write {
		f = file.WriteAt
	}
	if n, err := f(b, at); n < len(b) {
		return fmt.Errorf("%d bytes of %d at %d: %w", n, len(b), at, orShort(err))
	}
	return nil
}

// queued keeps depth direct requests of size bytes in flight at the places that next
// says, until it says that there are no more, and measures it.
func (r *Run) queued(op uint16, flag, depth, size int, next func() (at int64, more bool)) error {
	return r.withFile(flag|unix.O_DIRECT, depth*size, func(file File, b []byte) (err error) {
		f, ok := file.(*osFile)
		if !ok {
			return &SkipError{"only the kernel has asynchronous I/O"}
		}
		q, err := newQueue(depth)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, q.close()) }()
		return r.measure(func() (done int, err error) {
			flying := 0
			submit := func(slot int) error {
				at, more := next()
				if !more {
					return nil
				}
				flying++
				return q.submit(op, f.fd, b[slot*size:][:size], at, slot)
			}
			for slot := range depth {
				if err := submit(slot); err != nil {
					return 0, err
				}
			}
			for flying > 0 {
				finished, err := q.wait()
				if err != nil {
					return 0, err
				}
				for _, e := range finished {
					if e.Res != int64(size) {
						return 0, fmt.Errorf("a request of %d bytes returned %d", size, e.Res)
					}
					flying--
					done++
					if err := submit(int(e.Data)); err != nil {
						return 0, err
					}
				}
			}
			return done, nil
		})
	})
}
