package workload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// Size says how much each workload does at most.
type Size struct {
	FileMiB   int           // of the file of sequential and random I/O
	Files     int           // small files, and directories, that are made, examined and removed
	ListFiles int           // of the directory that is listed
	TreeFiles int           // of the tree that is unpacked, packed and removed
	Random    time.Duration // of random reading and writing
	// Limit ends a workload early, and what prepares it; 0 means never. What was done
	// until then counts.
	Limit time.Duration
}

// Workload is one thing to measure.
type Workload struct {
	Name string
	Unit string // of its rate
	// Bytes: it is counted in MiB.
	Bytes   bool
	prepare func(r *Run) error // makes what do needs
	do      func(r *Run) error // measures, by Run.measure or Run.each, a part of what it does
}

// Run is one run of a workload.
type Run struct {
	Place Place
	Size  Size
	// Meter, which may be nil, is asked what the client has spent right before and
	// after what is measured.
	Meter Meter
	// Scratch is a directory of this machine for what is copied from: a repository.
	// Without it nothing is cloned.
	Scratch string

	ctx   context.Context
	until time.Time // zero: for ever
	mib   int       // how large the large file is, for who has prepared it
	files int       // how many there are of what was prepared
	res   Result
}

// Result is what came of a run.
type Result struct {
	Count   int // files, requests, or MiB
	Elapsed time.Duration
	// Latencies are sorted: of each operation, where one follows another.
	Latencies []time.Duration
	// Spent is what the client has spent meanwhile.
	Spent Spent
}

// Rate is Count in a second.
func (r *Result) Rate() float64 { return float64(r.Count) / r.Elapsed.Seconds() }

// SkipError says why a workload cannot be run here.
type SkipError struct{ Reason string }

func (e *SkipError) Error() string { return "left out: " + e.Reason }

var errNothing = &SkipError{"there was nothing to do it with"}

// Prepare makes in the place what the workload needs and does not find there.
func (w *Workload) Prepare(ctx context.Context, r *Run) error {
	r.begin(ctx)
	if err := w.prepare(r); err != nil {
		return err
	}
	return ctx.Err()
}

// Measure runs the workload, which was prepared in the place, or another way to it.
func (w *Workload) Measure(ctx context.Context, r *Run) (*Result, error) {
	r.begin(ctx)
	r.res = Result{}
	if err := w.do(r); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.res.Count == 0 {
		return nil, errNothing
	}
	slices.Sort(r.res.Latencies)
	return &r.res, nil
}

func (r *Run) begin(ctx context.Context) {
	r.ctx, r.until = ctx, time.Time{}
	if r.Size.Limit > 0 {
		r.until = time.Now().Add(r.Size.Limit)
	}
}

// more reports whether there is time for another operation.
func (r *Run) more() bool { return r.moreAt(time.Now()) }

func (r *Run) moreAt(now time.Time) bool {
	return r.ctx.Err() == nil && (r.until.IsZero() || now.Before(r.until))
}

// measure times f, which returns how much it did.
func (r *Run) measure(f func() (n int, err error)) error {
	before, err := r.spent(true)
	if err != nil {
		return err
	}
	start := time.Now()
	n, err := f()
	elapsed := time.Since(start)
	if err != nil {
		return err
	}
	after, err := r.spent(false)
	if err != nil {
		return err
	}
	r.res.Count, r.res.Elapsed, r.res.Spent = n, max(elapsed, 1), after.minus(before)
	return nil
}

func (r *Run) spent(before bool) (Spent, error) {
	if r.Meter == nil {
		return nil, nil
	}
	s, err := r.Meter(before)
	if err != nil {
		return nil, fmt.Errorf("what the client has spent: %w", err)
	}
	return s, nil
}

// each measures n operations, one after the other.
func (r *Run) each(n int, f func(i int) error) error {
	r.res.Latencies = make([]time.Duration, 0, n)
	return r.measure(func() (int, error) {
		last := time.Now()
		for i := range n {
			if i > 0 && !r.moreAt(last) { // one is always done
				return i, nil
			}
			if err := f(i); err != nil {
				return 0, err
			}
			now := time.Now()
			r.res.Latencies = append(r.res.Latencies, now.Sub(last))
			last = now
		}
		return n, nil
	})
}

// gone: an error of Remove or the like that says so is none.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
