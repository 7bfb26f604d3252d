package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rdmafs/rdmafs/internal/workload"
)

// System is a way to mount a directory.
type System struct {
	Name string
	Dir  string // mount point
	// Data is the directory that the mount shows, where what a workload needs is made;
	// empty if the server must not be surprised so: then it is made through the mount.
	Data    string
	Mount   func(dir string) error
	Unmount func(dir string) error
	// PID is the process that serves the mount, while it is mounted on a directory. It
	// is nil if there is none.
	PID func(dir string) (int, error)
	// Calls counts the mount's calls to its server; nil if nothing does.
	Calls func(dir string) (uint64, error)
}

// with mounts, runs f, and unmounts.
func (s *System) with(f func() error) (err error) {
	if err := s.Mount(s.Dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Unmount(s.Dir)) }()
	return f()
}

// meter measures what the system spends while it is mounted.
func (s *System) meter() (workload.Meter, error) {
	calls := func() (uint64, error) { return s.Calls(s.Dir) }
	if s.Calls == nil {
		calls = nil
	}
	if s.PID != nil {
		pid, err := s.PID(s.Dir)
		return workload.ProcessMeter(pid, calls), err
	}
	if calls == nil {
		return nil, nil
	}
	return func(bool) (workload.Spent, error) {
		n, err := calls()
		return workload.Spent{workload.RPCs: float64(n)}, err
	}, nil
}

// Config says what Run does.
type Config struct {
	Workloads []*workload.Workload
	Rounds    int
	Size      workload.Size
	Scratch   string // of workload.Run
	// Progress is told each figure, a line each.
	Progress func(line string)
}

// Run measures every system in each round, turn by turn. Every other round has the
// systems in reverse, so that none always comes after the same other one.
func Run(ctx context.Context, systems []*System, cfg Config) (*Results, error) {
	r := newResults(systems, cfg.Workloads)
	order := slices.Clone(systems)
	for round := range cfg.Rounds {
		for _, w := range cfg.Workloads {
			for _, s := range order {
				if err := r.turn(ctx, s, w, round, &cfg); err != nil {
					return nil, fmt.Errorf("%s on %s: %w", w.Name, s.Name, err)
				}
			}
		}
		slices.Reverse(order)
	}
	return r, nil
}

// turn is that of one system with one workload.
func (r *Results) turn(ctx context.Context, s *System, w *workload.Workload, round int, cfg *Config) error {
	if _, skipped := r.Skipped[w.Name][s.Name]; skipped {
		return nil
	}
	run := &workload.Run{Place: workload.Dir(s.Data), Size: cfg.Size, Scratch: cfg.Scratch}
	prepare := func() error { return w.Prepare(ctx, run) }
	var err error
	if s.Data != "" {
		err = prepare()
	} else {
		run.Place = workload.Dir(s.Dir)
		err = s.with(prepare)
	}
	if err == nil {
		run.Place = workload.Dir(s.Dir)
		err = s.with(func() (err error) {
			if run.Meter, err = s.meter(); err != nil {
				return err
			}
			res, err := w.Measure(ctx, run)
			if err != nil {
				return err
			}
			r.add(w.Name, s.Name, res)
			cfg.Progress(fmt.Sprintf("round %d: %s: %s: %.0f %s", round+1, s.Name, w.Name, res.Rate(), w.Unit))
			return nil
		})
	}
	if skip := (*workload.SkipError)(nil); errors.As(err, &skip) {
		r.skip(w.Name, s.Name, skip.Reason)
		cfg.Progress(fmt.Sprintf("%s: %s: %v", s.Name, w.Name, skip))
		return nil
	}
	return err
}
