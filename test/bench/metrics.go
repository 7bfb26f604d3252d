package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// metric is one figure; measure mounts and unmounts by itself.
type metric struct {
	name, unit string
	measure    func(*system) (float64, error)
}

const (
	fileMiB    = 256
	smallFiles = 2000
	listFiles  = 10000
)

var metrics = []metric{
	{"sequential write 1 MiB", "MiB/s", func(s *system) (float64, error) {
		return fioRate(s, false, "write", "--rw=write", "--bs=1M", "--end_fsync=1", fmt.Sprintf("--size=%dM", fileMiB))
	}},
	{"sequential read 1 MiB", "MiB/s", func(s *system) (float64, error) {
		return fioRate(s, true, "read", "--rw=read", "--bs=1M", fmt.Sprintf("--size=%dM", fileMiB))
	}},
	{"sequential read 1 MiB O_DIRECT", "MiB/s", func(s *system) (float64, error) {
		return fioRate(s, true, "read", "--rw=read", "--bs=1M", "--direct=1", fmt.Sprintf("--size=%dM", fileMiB))
	}},
	{"random read 4 KiB depth 1", "IOPS", func(s *system) (float64, error) { return randomRead(s, 1) }},
	{"random read 4 KiB depth 16", "IOPS", func(s *system) (float64, error) { return randomRead(s, 16) }},
	{"create", "files/s", func(s *system) (float64, error) {
		dir := filepath.Join(s.dir, "small")
		return rate(s, smallFiles, func() error { return errors.Join(os.MkdirAll(dir, 0o755), createFiles(dir, smallFiles)) })
	}},
	{"stat", "files/s", func(s *system) (float64, error) {
		return rate(s, smallFiles, func() error {
			for i := range smallFiles {
				if _, err := os.Lstat(fileName(filepath.Join(s.dir, "small"), i)); err != nil {
					return err
				}
			}
			return nil
		})
	}},
	{"unlink", "files/s", func(s *system) (float64, error) {
		return rate(s, smallFiles, func() error {
			for i := range smallFiles {
				if err := os.Remove(fileName(filepath.Join(s.dir, "small"), i)); err != nil {
					return err
				}
			}
			return nil
		})
	}},
	{"ls -l of 10,000 entries", "entries/s", func(s *system) (float64, error) {
		dir := filepath.Join(s.dir, "list")
		if err := s.with(func() error {
			if _, err := os.Lstat(fileName(dir, listFiles-1)); err == nil {
				return nil // made by an earlier turn
			}
			return errors.Join(os.MkdirAll(dir, 0o755), createFiles(dir, listFiles))
		}); err != nil {
			return 0, err
		}
		return rate(s, listFiles, func() error { return command("ls", "-l", dir) })
	}},
}

func fileName(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("file-%05d", i)) }

func createFiles(dir string, n int) error {
	for i := range n {
		f, err := os.OpenFile(fileName(dir, i), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// rate times f on a fresh mount and returns how many of n it did in a second.
func rate(s *system, n int, f func() error) (v float64, err error) {
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

func randomRead(s *system, depth int) (float64, error) {
	return fioRate(s, true, "iops", "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=libaio",
		fmt.Sprintf("--iodepth=%d", depth), fmt.Sprintf("--size=%dM", fileMiB), "--time_based", "--runtime=3")
}

// fioRate runs fio on one file of a fresh mount. which is "read" or "write" for
// MiB/s, or "iops". The file of the last write is kept for the reads.
func fioRate(s *system, keep bool, which string, args ...string) (v float64, err error) {
	err = s.with(func() error {
		file := filepath.Join(s.dir, "large")
		if !keep {
			if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		args := append([]string{"--name=bench", "--filename=" + file, "--output-format=json", "--invalidate=0"}, args...)
		out, err := exec.Command("fio", args...).Output()
		if err != nil {
			return fmt.Errorf("fio: %w: %s", err, out)
		}
		var r struct {
			Jobs []struct {
				Read, Write struct {
					BWBytes float64 `json:"bw_bytes"`
					IOPS    float64 `json:"iops"`
				}
			}
		}
		if err := json.Unmarshal(out, &r); err != nil || len(r.Jobs) != 1 {
			return fmt.Errorf("fio's report: %v", err)
		}
		switch j := r.Jobs[0]; which {
		case "read":
			v = j.Read.BWBytes / (1 << 20)
		case "write":
			v = j.Write.BWBytes / (1 << 20)
		case "iops":
			v = j.Read.IOPS
		}
		return nil
	})
	return v, err
}
