package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/bench"
	"github.com/rdmafs/rdmafs/internal/look"
	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/internal/workload"
)

// benchDir is what a bench calls its own directory.
const benchDir = "rdmafs-bench."

// benchDirectory is a directory of a file system that is mounted already.
type benchDirectory struct {
	own  string // made by newBenchDirectory
	used bench.Used
	// meter is nil where nobody counts.
	meter workload.Meter
}

func newBenchDirectory(arg string) (*benchDirectory, error) {
	bad := func(format string, args ...any) (*benchDirectory, error) {
		return nil, withCode(exitFail, fmt.Errorf("%s %s", arg, fmt.Sprintf(format, args...)))
	}
	abs, err := look.Absolute(arg)
	if err != nil {
		return nil, withCode(exitUsage, err)
	}
	at, err := look.Path(abs, false)
	switch {
	case errors.Is(err, look.ErrSilent):
		return bad("does not answer%s", obstacle(at.At))
	case err != nil:
		return nil, withCode(exitSystem, err)
	case at.Dead():
		return bad("is dead, its daemon has ended%s", obstacle(at.At))
	case at.Errno != 0:
		return bad("cannot be used: %v%s", at.Errno, obstacle(at.At))
	case !at.Dir:
		return bad("is not a directory")
	}
	d := &benchDirectory{used: bench.Used{Target: arg, Way: bench.Directory}}
	if d.own, err = os.MkdirTemp(at.At, benchDir); err != nil {
		return bad("cannot be written to: %v", errors.Unwrap(err))
	}
	d.know(at.At)
	return d, nil
}

// know finds out what file system it is, and who counts its calls.
func (d *benchDirectory) know(dir string) {
	table, err := mounttable.Read()
	if err != nil {
		return
	}
	m := mounttable.Under(dir, table)
	d.used.Type, d.used.Source = m.Type, m.Source
	switch m.Type {
	case "fuse.rdmafs":
		r, err := askReport(m.Dir)
		if err != nil {
			return // another user's
		}
		d.used.Transport, d.used.Server, d.used.Version = r.Transport, r.Server, r.Version
		d.meter = mountMeter(m.Dir, r.PID)
	case "nfs", "nfs4":
		if _, err := workload.KernelCalls(m.Dir); err == nil {
			d.meter = func(bool) (workload.Spent, error) {
				n, err := workload.KernelCalls(m.Dir)
				return workload.Spent{workload.RPCs: float64(n)}, err
			}
		}
	}
}

// mountMeter measures the daemon of a mount.
func mountMeter(dir string, pid int) workload.Meter {
	return workload.ProcessMeter(pid, func() (uint64, error) {
		r, err := askReport(dir)
		return r.Calls.Calls, err
	})
}

func (d *benchDirectory) Fresh(context.Context) (workload.Place, error) {
	return workload.Dir(d.own), nil
}
func (d *benchDirectory) Meter() workload.Meter { return d.meter }
func (d *benchDirectory) Used() bench.Used      { return d.used }
func (d *benchDirectory) Room() (uint64, bool)  { return roomAt(d.own) }

func (d *benchDirectory) End() error { return removeBenchDir(d.own) }

// roomAt is how many bytes a user may write to a file system.
func roomAt(dir string) (uint64, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Blocks == 0 {
		return 0, false // some file systems do not know
	}
	return st.Bavail * uint64(st.Bsize), true
}

// removeBenchDir removes a bench's own directory with what the bench has made there.
func removeBenchDir(own string) error {
	return errors.Join(workload.Clean(workload.Dir(own)), os.Remove(own))
}
