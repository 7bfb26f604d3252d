package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rdmafs/rdmafs/internal/workload"
	"github.com/rdmafs/rdmafs/test/bench/compare"
)

// scaler measures how rdmafs over one transport grows.
type scaler struct {
	build     *build
	transport string
	data, mnt string
	cfg       compare.Config
}

// point is a place of a curve.
type point struct {
	x       string // what is varied
	more    string // mount options, behind a comma
	w       *workload.Workload
	size    workload.Size
	results []*workload.Result // one a round
	memory  []memory
}

// memory is the daemon's, in KiB, before and after the workload.
type memory struct{ before, after uint64 }

func scale(ctx context.Context, o options, cfg compare.Config, work string) (tables []*compare.Table, err error) {
	z := &scaler{build: &build{bin: o.bin, host: serverHost, client: clientHost}, transport: cmp.Or(o.systems, "iwarp"),
		data: filepath.Join(work, "data"), mnt: filepath.Join(work, "mnt"), cfg: cfg}
	if !slices.Contains(ours, z.transport) {
		return nil, fmt.Errorf("-scale wants one of %v, not %q", ours, z.transport)
	}
	if err := errors.Join(os.Mkdir(z.data, 0o755), os.Mkdir(z.mnt, 0o755)); err != nil {
		return nil, err
	}
	if err := z.build.start(z.data, work); err != nil {
		return nil, err
	}
	defer z.build.stop()

	threads := z.curve([]int{1, 2, 4, 8, 16, 32, 64}, func(n int) point { return point{w: workload.ReadThreads(n)} })
	connections := []int{1, 2, 4, 8, 16}
	requests := z.curve(connections, func(n int) point {
		return point{w: workload.ReadThreads(64), more: fmt.Sprintf(",nconnect=%d", n)}
	})
	stream := z.curve(connections, func(n int) point {
		return point{w: workload.Named("sequential read, O_DIRECT, aio 8"), more: fmt.Sprintf(",nconnect=%d", n)}
	})
	var sizes []int
	for n := 100; n <= o.files; n *= 10 {
		sizes = append(sizes, n)
	}
	listed := func(name string) []*point {
		return z.curve(sizes, func(n int) point {
			size := cfg.Size
			size.ListFiles = n
			return point{w: workload.Named(name), size: size}
		})
	}
	names, stats := listed("ls, names only"), listed("ls and stat each")
	for round := range cfg.Rounds {
		for _, p := range slices.Concat(threads, requests, stream, names, stats) {
			if err := z.measure(ctx, p); err != nil {
				return nil, fmt.Errorf("%s with %s: %w", p.w.Name, p.x, err)
			}
			cfg.Progress(fmt.Sprintf("round %d: %s with %s: %.0f %s", round+1, p.w.Name, p.x, p.rate(), p.w.Unit))
		}
	}
	by := " over " + z.transport + ", median"
	return []*compare.Table{
		table("Random reads of 4 KiB by threads"+by, "threads", threads),
		table("Random reads of 4 KiB by 64 threads, by connections (nconnect)"+by, "connections", requests),
		table("Sequential reads of 1 MiB, 8 at once, by connections (nconnect)"+by, "connections", stream),
		table("Names of a directory by how many it has"+by, "files", names),
		table("Names and attributes of a directory, inodes that are then cached"+by, "files", stats, memoryColumns...),
	}, nil
}

// curve makes its points; a size that they have not is the run's.
func (z *scaler) curve(xs []int, at func(x int) point) []*point {
	var all []*point
	for _, x := range xs {
		p := at(x)
		p.x = fmt.Sprint(x)
		if p.size == (workload.Size{}) {
			p.size = z.cfg.Size
		}
		all = append(all, &p)
	}
	return all
}

// measure adds a round to a point, on a fresh mount.
func (z *scaler) measure(ctx context.Context, p *point) (err error) {
	s := z.build.system(z.transport, z.data, z.mnt, p.more)
	run := &workload.Run{Place: workload.Dir(z.data), Size: p.size}
	if err := p.w.Prepare(ctx, run); err != nil {
		return err
	}
	if err := s.Mount(s.Dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Unmount(s.Dir)) }()
	pid, err := s.PID(s.Dir)
	if err != nil {
		return err
	}
	run.Place = workload.Dir(s.Dir)
	run.Meter = workload.ProcessMeter(pid, func() (uint64, error) { return s.Calls(s.Dir) })
	var m memory
	if m.before, err = workload.RSS(pid); err != nil {
		return err
	}
	res, err := p.w.Measure(ctx, run)
	if err != nil {
		return err
	}
	if m.after, err = workload.RSS(pid); err != nil {
		return err
	}
	p.results, p.memory = append(p.results, res), append(p.memory, m)
	return nil
}

// middle is the median of what f says of each round.
func middle[T any](rounds []T, f func(r T) float64) float64 {
	var all []float64
	for _, r := range rounds {
		all = append(all, f(r))
	}
	return compare.Median(all)
}

func (p *point) rate() float64 { return middle(p.results, (*workload.Result).Rate) }

// column is one more of a curve's table.
type column struct {
	name string
	cell func(p *point) string
}

var memoryColumns = []column{
	{"RSS before, MiB", func(p *point) string {
		return fmt.Sprintf("%.1f", middle(p.memory, func(m memory) float64 { return float64(m.before) / 1024 }))
	}},
	{"after", func(p *point) string {
		return fmt.Sprintf("%.1f", middle(p.memory, func(m memory) float64 { return float64(m.after) / 1024 }))
	}},
	{"bytes an inode", func(p *point) string {
		return fmt.Sprintf("%.0f", middle(p.memory, func(m memory) float64 { return (float64(m.after) - float64(m.before)) * 1024 })/float64(p.results[0].Count))
	}},
}

// table has a row a point: its rate, and what bends the curve.
func table(title, x string, curve []*point, more ...column) *compare.Table {
	t := &compare.Table{Title: title, Head: []string{x, curve[0].w.Unit, "÷ first", "calls each", "switches each", "processors busy in the client"}}
	for _, c := range more {
		t.Head = append(t.Head, c.name)
	}
	each := func(p *point, k workload.Kind) float64 {
		return middle(p.results, func(r *workload.Result) float64 {
			v, _ := r.Per(k)
			return v
		})
	}
	for _, p := range curve {
		busy := middle(p.results, func(r *workload.Result) float64 { return r.Spent[workload.CPU] / float64(r.Elapsed) })
		row := []string{p.x, fmt.Sprintf("%.0f", p.rate()), fmt.Sprintf("%.2f", p.rate()/curve[0].rate()),
			fmt.Sprintf("%.3g", each(p, workload.RPCs)), fmt.Sprintf("%.3g", each(p, workload.Switches)), fmt.Sprintf("%.2f", busy)}
		for _, c := range more {
			row = append(row, c.cell(p))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
