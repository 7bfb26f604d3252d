package compare

import (
	"fmt"
	"os"
	"strconv"
	"strings"
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
		v = float64(after-before) * 1024 / float64(z.FileMiB)
		return err
	})
	return v, err
}

// processTime is what a process has spent so far, in milliseconds, see proc(5).
func processTime(pid int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may hold anything; utime and stime are the
	// 12th and 13th words behind it, in hundredths of a second.
	words := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(words) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat is %q", pid, b)
	}
	sum := 0
	for _, w := range words[11:13] {
		n, err := strconv.Atoi(w)
		if err != nil {
			return 0, err
		}
		sum += n * 10
	}
	return sum, nil
}
