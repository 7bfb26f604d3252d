package compare

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// cpu is how many milliseconds of processor time the client spends on a GiB,
// of which f moves FileMiB. What the kernel does outside of the process, such
// as receiving packets, is not in it.
func (z Size) cpu(s *System, f func() error) (v float64, err error) {
	err = s.with(func() error {
		pid, err := s.PID()
		if err != nil {
			return err
		}
		before, err := processTime(pid)
		if err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
		after, err := processTime(pid)
		v = (after - before).Seconds() * 1000 * 1024 / float64(z.FileMiB)
		return err
	})
	return v, err
}

// processTime is the processor time that a process has spent so far, by its CPU
// clock, see clock_getcpuclockid(3): /proc counts in hundredths of a second.
func processTime(pid int) (time.Duration, error) {
	const sched = 2 // CPUCLOCK_SCHED, of all threads
	var t unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|sched), &t)
	return time.Duration(t.Nano()), os.NewSyscallError("clock_gettime", err)
}
