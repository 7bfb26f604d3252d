package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rdmafs/rdmafs/internal/bench"
	"github.com/rdmafs/rdmafs/internal/workload"
)

// benchMount is an export that is mounted for the time, as "rdmafs mount" does it: by a
// daemon, which must not be the process that uses the mount.
type benchMount struct {
	target, words string
	program       string
	dir           string // the mount point
	own           string // in it; empty until it is made
	mounted       bool
	used          bench.Used
	meter         workload.Meter
}

func newBenchMount(target, words string) (*benchMount, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, withCode(exitSystem, err)
	}
	dir, err := os.MkdirTemp("", benchDir)
	if err != nil {
		return nil, withCode(exitSystem, err)
	}
	return &benchMount{target: target, words: "retry=0," + words, program: program, dir: dir}, nil
}

// Fresh mounts, instead of what was mounted before.
func (m *benchMount) Fresh(ctx context.Context) (workload.Place, error) {
	if err := m.unmount(); err != nil {
		return nil, err
	}
	args := []string{"mount", m.target, m.dir}
	if m.words != "" {
		args = append(args, "-o", m.words)
	}
	if err := m.command(ctx, args...); err != nil {
		return nil, err
	}
	m.mounted = true
	if m.own == "" {
		own, err := os.MkdirTemp(m.dir, benchDir)
		if err != nil {
			return nil, fmt.Errorf("the export cannot be written to: %w", err)
		}
		m.own = own
	}
	r, err := askReport(m.dir)
	if err != nil {
		return nil, err
	}
	m.used = bench.Used{Target: m.target, Way: bench.Mount, Transport: r.Transport, Server: r.Server, Version: r.Version, Cold: true}
	m.meter = mountMeter(m.dir, r.PID)
	return workload.Dir(m.own), nil
}

// unmount returns when everything is on the server.
func (m *benchMount) unmount() error {
	if !m.mounted {
		return nil
	}
	m.mounted = false
	return m.command(context.Background(), "umount", m.dir)
}

// command runs rdmafs, out of the way of a terminal's signals: what is to end is told
// by ctx. An error of the command has its exit code.
func (m *benchMount) command(ctx context.Context, args ...string) error {
	c := exec.CommandContext(ctx, m.program, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	var said bytes.Buffer
	c.Stderr = &said
	err := c.Run()
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) && said.Len() > 0 {
		text := strings.TrimPrefix(strings.TrimSpace(said.String()), "rdmafs: ")
		return withCode(ended.ExitCode(), errors.New(strings.TrimPrefix(text, m.target+": ")))
	}
	return withCode(exitSystem, err)
}

func (m *benchMount) Meter() workload.Meter { return m.meter }
func (m *benchMount) Used() bench.Used      { return m.used }
func (m *benchMount) Room() (uint64, bool)  { return roomAt(m.own) }

// End removes what was made, over another mount if there is none.
func (m *benchMount) End() error {
	var err error
	if m.own != "" && !m.mounted {
		_, err = m.Fresh(context.Background())
	}
	if m.own != "" && err == nil {
		err = removeBenchDir(m.own)
	}
	err = errors.Join(err, m.unmount())
	return errors.Join(err, os.Remove(filepath.Clean(m.dir)))
}
