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

// Metric is what is measured.
type Metric struct {
	Name, Unit string
	Cost       bool // less is better
}

// Run measures every system in each round, turn by turn, and reports each
// figure to progress, a line each. Every other round has the systems in reverse,
// so that none always comes after the same other one.
func Run(systems []*System, rounds int, size Size, progress func(line string)) (*Results, error) {
	r := &Results{Values: make(map[string]map[string][]float64)}
	turns := size.turns()
	for _, m := range slices.Concat(turns...) {
		r.Metrics = append(r.Metrics, m.Metric)
		r.Values[m.Name] = make(map[string][]float64)
	}
	order := slices.Clone(systems)
	for round := range rounds {
		for _, turn := range turns {
			for _, s := range order {
				if err := r.measure(s, turn, round, progress); err != nil {
					return nil, err
				}
			}
		}
		slices.Reverse(order)
	}
	return r, nil
}

// measure is the turn of one system.
func (r *Results) measure(s *System, turn []metric, round int, progress func(line string)) error {
	for _, m := range turn {
		v, err := m.measure(s)
		if err != nil {
			return fmt.Errorf("%s on %s: %w", m.Name, s.Name, err)
		}
		progress(fmt.Sprintf("round %d: %s: %s: %.0f %s", round+1, s.Name, m.Name, v, m.Unit))
		r.Values[m.Name][s.Name] = append(r.Values[m.Name][s.Name], v)
	}
	return nil
}

// Median of a system's values.
func (r *Results) Median(metric, system string) float64 { return median(r.Values[metric][system]) }

// Ratio is that of two systems' medians.
func (r *Results) Ratio(metric, system, base string) float64 {
	return r.Median(metric, system) / r.Median(metric, base)
}

// Gain is how much better a system did than base: the median of the rounds'
// ratios, and the quartiles. More than 1 is better, also where less of a Metric
// is. ok is false if a value is too small to be measured.
func (r *Results) Gain(m Metric, system, base string) (mid, low, high float64, ok bool) {
	a, b := r.Values[m.Name][system], r.Values[m.Name][base]
	if m.Cost {
		a, b = b, a
	}
	var gains []float64
	for i := range a {
		if a[i] <= 0 || b[i] <= 0 {
			return 0, 0, 0, false
		}
		gains = append(gains, a[i]/b[i])
	}
	slices.Sort(gains)
	n := len(gains)
	return median(gains), gains[n/4], gains[n-1-n/4], true
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}
