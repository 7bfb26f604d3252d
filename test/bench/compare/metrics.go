package compare

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Size says how much each workload does.
type Size struct {
	FileMiB    int           // of sequential and random I/O
	SmallFiles int           // created, examined and removed
	ListFiles  int           // of the directory that ls lists
	Random     time.Duration // of random reading
	CPU        bool          // measure what the client's process spends
}

// metric is one figure; measure mounts and unmounts by itself.
type metric struct {
	Metric
	measure func(*System) (float64, error)
}

// turns are the metrics in the order measured, as some need the files of those
// before. The metrics of one turn are those of a system before it is the next
// one's turn: they need the files that this system has made.
func (z Size) turns() [][]metric {
	small := func(s *System) string { return filepath.Join(s.Dir, "small") }
	alone := func(name, unit string, measure func(*System) (float64, error)) []metric {
		return []metric{{Metric{Name: name, Unit: unit}, measure}}
	}
	all := [][]metric{
		alone("sequential write 1 MiB, O_DIRECT", "MiB/s", func(s *System) (float64, error) {
			return rate(s, z.FileMiB, func() error { return writeFile(large(s), z.FileMiB, unix.O_DIRECT) })
		}),
		alone("sequential write 1 MiB", "MiB/s", func(s *System) (float64, error) {
			return rate(s, z.FileMiB, func() error { return writeFile(large(s), z.FileMiB, 0) })
		}),
		alone("sequential read 1 MiB", "MiB/s", func(s *System) (float64, error) {
			return rate(s, z.FileMiB, func() error { return readFile(large(s), z.FileMiB, 0) })
		}),
		alone("sequential read 1 MiB, O_DIRECT", "MiB/s", func(s *System) (float64, error) {
			return rate(s, z.FileMiB, func() error { return readFile(large(s), z.FileMiB, unix.O_DIRECT) })
		}),
		alone("random read 4 KiB, depth 1", "IOPS", func(s *System) (float64, error) { return z.random(s, 1) }),
		alone("random read 4 KiB, depth 16", "IOPS", func(s *System) (float64, error) { return z.random(s, 16) }),
		{
			{Metric{Name: "create", Unit: "files/s"}, func(s *System) (float64, error) {
				return rate(s, z.SmallFiles, func() error {
					return errors.Join(os.MkdirAll(small(s), 0o755), createFiles(small(s), z.SmallFiles))
				})
			}},
			{Metric{Name: "stat", Unit: "files/s"}, func(s *System) (float64, error) {
				return rate(s, z.SmallFiles, func() error {
					return each(small(s), z.SmallFiles, func(name string) error { _, err := os.Lstat(name); return err })
				})
			}},
			{Metric{Name: "unlink", Unit: "files/s"}, func(s *System) (float64, error) {
				return rate(s, z.SmallFiles, func() error { return each(small(s), z.SmallFiles, os.Remove) })
			}},
		},
		alone(fmt.Sprintf("ls -l of %d files", z.ListFiles), "files/s", z.list),
	}
	if z.CPU {
		cost := func(name string, f func(s *System) error) []metric {
			return []metric{{Metric{Name: "CPU of the client, " + name, Unit: "ms/GiB", Cost: true}, func(s *System) (float64, error) {
				return z.cpu(s, func() error { return f(s) })
			}}}
		}
		all = append(all,
			cost("writing 1 MiB, O_DIRECT", func(s *System) error { return writeFile(large(s), z.FileMiB, unix.O_DIRECT) }),
			cost("reading 1 MiB, O_DIRECT", func(s *System) error { return readFile(large(s), z.FileMiB, unix.O_DIRECT) }))
	}
	return all
}

func large(s *System) string { return filepath.Join(s.Dir, "large") }

// rate times f on a fresh mount and returns how many of n it did in a second.
func rate(s *System, n int, f func() error) (v float64, err error) {
	err = s.with(func() error {
		start := time.Now()
		if err := f(); err != nil {
			return err
		}
		v = float64(n) / time.Since(start).Seconds()
		return nil
	})
	return v, err
}

func (z Size) random(s *System, depth int) (v float64, err error) {
	err = s.with(func() error {
		v, err = randomReads(large(s), z.FileMiB, depth, z.Random)
		return err
	})
	return v, err
}

func (z Size) list(s *System) (float64, error) {
	dir := filepath.Join(s.Dir, "list")
	err := s.with(func() error {
		if _, err := os.Lstat(fileName(dir, z.ListFiles-1)); err == nil {
			return nil // made by an earlier turn
		}
		return errors.Join(os.MkdirAll(dir, 0o755), createFiles(dir, z.ListFiles))
	})
	if err != nil {
		return 0, err
	}
	return rate(s, z.ListFiles, func() error {
		if out, err := exec.Command("ls", "-l", dir).CombinedOutput(); err != nil {
			return fmt.Errorf("ls: %w: %s", err, out)
		}
		return nil
	})
}

func fileName(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("file-%05d", i)) }

func each(dir string, n int, f func(name string) error) error {
	for i := range n {
		if err := f(fileName(dir, i)); err != nil {
			return err
		}
	}
	return nil
}

func createFiles(dir string, n int) error {
	return each(dir, n, func(name string) error {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		return f.Close()
	})
}
