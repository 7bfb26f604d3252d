package compare

import (
	"errors"
	"fmt"
	"slices"
)

// System is a way to mount the one directory that all measure on.
type System struct {
	Name    string
	Dir     string // mount point
	Mount   func(dir string) error
	Unmount func(dir string) error
	// PID is the process that serves the mount, while it is mounted; needed for
	// Size.CPU.
	PID func() (int, error)
}

// with mounts, runs f, and unmounts.
func (s *System) with(f func() error) (err error) {
	if err := s.Mount(s.Dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Unmount(s.Dir)) }()
	return f()
}

// Results are the values of all rounds, by metric and system.
type Results struct {
	Metrics []Metric                        // in the order measured
	Values  map[string]map[string][]float64 // metric → system → one value a round
}

// Metric is what a figure tells.
type Metric struct{ Name, Unit string }

// Run measures every system in each round and reports each figure to progress, a line each.
func Run(systems []*System, rounds int, size Size, progress func(line string)) (*Results, error) {
	r := &Results{Values: make(map[string]map[string][]float64)}
	metrics := size.metrics()
	for _, m := range metrics {
		r.Metrics = append(r.Metrics, m.Metric)
		r.Values[m.Name] = make(map[string][]float64)
	}
	for round := range rounds {
		for _, s := range systems {
			for _, m := range metrics {
				v, err := m.measure(s)
				if err != nil {
					return nil, fmt.Errorf("%s on %s: %w", m.Name, s.Name, err)
				}
				progress(fmt.Sprintf("round %d: %s: %s: %.0f %s", round+1, s.Name, m.Name, v, m.Unit))
				r.Values[m.Name][s.Name] = append(r.Values[m.Name][s.Name], v)
			}
		}
	}
	return r, nil
}

// Median of a system's values.
func (r *Results) Median(metric, system string) float64 { return median(r.Values[metric][system]) }

// Ratio is that of two systems' medians.
func (r *Results) Ratio(metric, system, base string) float64 {
	return r.Median(metric, system) / r.Median(metric, base)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}
