package compare

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/rdmafs/rdmafs/internal/workload"
)

// Memory is what a client's process holds (VmRSS), in KiB.
type Memory struct {
	System string `json:"system"`
	Idle   uint64 `json:"idle"`  // when it was just mounted
	Load   uint64 `json:"load"`  // right after some workloads
	Later  uint64 `json:"later"` // Rest after that
}

// Rest is how long a client has to give back memory.
const Rest = time.Minute

// load is what fills a client's memory.
var load = regexp.MustCompile("^(sequential .*|random read 4 KiB, 16 threads|create|stat, cold|ls -l|untar|tar -c, cold)$")

// MeasureMemory mounts all systems that have a process at once, each on a directory
// that dir names, and looks at their memory before and after.
func (r *Results) MeasureMemory(ctx context.Context, systems []*System, cfg Config, dir func(s *System) (string, error)) (err error) {
	type mounted struct {
		s   *System
		pid int
		m   Memory
	}
	var all []*mounted
	for _, s := range systems {
		if s.PID == nil {
			continue
		}
		at := *s
		if at.Dir, err = dir(s); err != nil {
			return err
		}
		if err := at.Mount(at.Dir); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, at.Unmount(at.Dir)) }()
		pid, err := at.PID(at.Dir)
		if err != nil {
			return err
		}
		one := &mounted{&at, pid, Memory{System: s.Name}}
		if one.m.Idle, err = workload.RSS(pid); err != nil {
			return err
		}
		all = append(all, one)
	}
	for _, one := range all {
		run := &workload.Run{Place: workload.Dir(one.s.Dir), Size: cfg.Size}
		for _, w := range workload.Matching(load) {
			err := w.Prepare(ctx, run)
			if err == nil {
				_, err = w.Measure(ctx, run)
			}
			if skip := (*workload.SkipError)(nil); err != nil && !errors.As(err, &skip) {
				return fmt.Errorf("%s on %s: %w", w.Name, one.s.Name, err)
			}
		}
		if one.m.Load, err = workload.RSS(one.pid); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		return nil
	}
	cfg.Progress(fmt.Sprintf("memory: waiting %v for what clients give back", Rest))
	select {
	case <-time.After(Rest):
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, one := range all {
		if one.m.Later, err = workload.RSS(one.pid); err != nil {
			return err
		}
		r.Memory = append(r.Memory, one.m)
	}
	return nil
}

func (r *Results) memory() *Table {
	t := &Table{Title: "Memory of the client's process (RSS), MiB", Head: []string{"mount", "idle", "after load", "a minute after"}}
	for _, m := range r.Memory {
		mib := func(kib uint64) string { return fmt.Sprintf("%.1f", float64(kib)/1024) }
		t.Rows = append(t.Rows, []string{m.System, mib(m.Idle), mib(m.Load), mib(m.Later)})
	}
	return t
}
