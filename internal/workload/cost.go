package workload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Kind is a thing that a client spends.
type Kind string

// What a client spends. What the kernel does outside of the client's process, such
// as receiving packets, is not in it.
const (
	CPU      Kind = "processor time"   // nanoseconds of the client's process
	Switches Kind = "context switches" // of all its threads, voluntary or not
	RPCs     Kind = "calls"            // to the server
)

// Spent is how much of each kind; a kind that is not known is not there.
type Spent map[Kind]float64

// Meter tells what a client has spent so far, before or after what is measured.
type Meter func(before bool) (Spent, error)

func (s Spent) minus(before Spent) Spent {
	d := Spent{}
	for k, v := range s {
		if b, ok := before[k]; ok {
			d[k] = v - b
		}
	}
	return d
}

// Per is how much of a kind one of the result's operations has cost. An operation of
// a workload in bytes is 1 MiB.
func (r *Result) Per(k Kind) (v float64, ok bool) {
	v, ok = r.Spent[k]
	return v / float64(r.Count), ok
}

// ProcessMeter measures a process. calls counts its RPCs, and may be nil.
func ProcessMeter(pid int, calls func() (uint64, error)) Meter {
	return func(before bool) (Spent, error) {
		s := Spent{}
		count := func() error {
			if calls == nil {
				return nil
			}
			n, err := calls()
			s[RPCs] = float64(n)
			return err
		}
		process := func() error {
			t, err := processTime(pid)
			if err != nil {
				return err
			}
			n, err := switches(pid)
			s[CPU], s[Switches] = float64(t), float64(n)
			return err
		}
		// Asking for the calls costs the process something, which stays outside.
		steps := []func() error{process, count}
		if before {
			slices.Reverse(steps)
		}
		for _, step := range steps {
			if err := step(); err != nil {
				return nil, err
			}
		}
		return s, nil
	}
}

// processTime is the processor time that a process has spent so far, by its CPU
// clock, see clock_getcpuclockid(3): /proc counts in hundredths of a second.
func processTime(pid int) (time.Duration, error) {
	const sched = 2 // CPUCLOCK_SCHED, of all threads
	var t unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|sched), &t)
	return time.Duration(t.Nano()), os.NewSyscallError("clock_gettime", err)
}

// switches is how often the threads of a process were taken from a processor or
// left one. What a thread that has ended had is not in it.
func switches(pid int) (n uint64, err error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return 0, err
	}
	for _, name := range tasks {
		for _, key := range []string{"voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"} {
			v, err := field(name, key)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
				break // the thread has just ended
			}
			if err != nil {
				return 0, err
			}
			n += v
		}
	}
	return n, nil
}

// RSS is the memory of a process that is not swapped out, in KiB.
func RSS(pid int) (uint64, error) { return field(fmt.Sprintf("/proc/%d/status", pid), "VmRSS") }

// field is the number behind a key of a file like /proc/PID/status.
func field(name, key string) (uint64, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if k, v, _ := strings.Cut(s.Text(), ":"); k == key {
			return strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", name, key)
}
