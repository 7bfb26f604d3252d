package bench

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/rdmafs/rdmafs/internal/workload"
)

// Ground is a way to a file system.
type Ground interface {
	// Fresh is a directory of the bench's own to work in, the same each time. Caches
	// of the client are empty where the ground can have it so.
	Fresh(ctx context.Context) (workload.Place, error)
	// Meter measures what the client spends from Fresh to the next; nil if nobody knows.
	Meter() workload.Meter
	// Used says what is measured, after Fresh.
	Used() Used
	// Room is how many bytes can be written; ok is false if nobody knows.
	Room() (bytes uint64, ok bool)
}

// Used is what was measured and how.
type Used struct {
	Target    string `json:"target"`              // as it was given
	Way       Way    `json:"way"`                 //
	Type      string `json:"type,omitempty"`      // of the file system, as in the mount table
	Source    string `json:"source,omitempty"`    // of the mount
	Transport string `json:"transport,omitempty"` // "rdma/iwarp" or "tcp"
	Server    string `json:"server,omitempty"`    // address and port
	Version   string `json:"version,omitempty"`   // of NFS
	// Cold: each workload finds empty caches.
	Cold bool `json:"cold"`
}

// Way is how the file system was reached.
type Way string

// The three ways.
const (
	Directory Way = "directory" // of a file system that was mounted already
	Mount     Way = "mount"     // mounted for the time
	Library   Way = "library"   // without FUSE
)

// Config says what to measure.
type Config struct {
	Workloads []*workload.Workload
	Size      workload.Size // but Limit and Random
	Time      time.Duration // of all together, about
	Scratch   string        // of workload.Run
	// Progress is called before each workload.
	Progress func(name string)
}

// SpaceError says that there is not enough room.
type SpaceError struct {
	Need, Have uint64 // bytes; 0 if the server has said it
}

func (e *SpaceError) Error() string {
	const hint = "choose a smaller --size"
	if e.Need == 0 {
		return "no space left, or over quota: " + hint
	}
	return fmt.Sprintf("there is room for %d MiB, and %d MiB are needed: %s", e.Have>>20, (e.Need+1<<20-1)>>20, hint)
}

// beside is how much of the time goes into preparing, mounting and the like.
const beside = 2

// most bounds random I/O, which gains nothing from taking longer.
const most = 3 * time.Second

// Run measures.
func Run(ctx context.Context, g Ground, cfg Config) (*Report, error) {
	start := time.Now()
	r := &Report{Results: []Result{}}
	size := cfg.Size
	size.Limit = cfg.Time / time.Duration(beside*len(cfg.Workloads))
	size.Random = min(size.Limit, most)
	place, err := g.Fresh(ctx)
	if err == nil {
		err = roomFor(g, size)
	}
	if err != nil {
		return nil, err
	}
	run := &workload.Run{Place: place, Size: size, Scratch: cfg.Scratch}
	for _, w := range cfg.Workloads {
		cfg.Progress(w.Name)
		res, err := cycle(ctx, g, w, run)
		skip := (*workload.SkipError)(nil)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil:
			r.Results = append(r.Results, result(w, res))
		case errors.As(err, &skip):
			r.Results = append(r.Results, Result{Workload: w.Name, Unit: w.Unit, Skipped: skip.Reason})
		case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
			return nil, &SpaceError{}
		default:
			return nil, err
		}
	}
	r.Used, r.Seconds = g.Used(), time.Since(start).Seconds()
	r.Hints = hints(r)
	return r, nil
}

// cycle prepares one workload where the one before has left the place, empties the
// caches, and measures it.
func cycle(ctx context.Context, g Ground, w *workload.Workload, run *workload.Run) (_ *workload.Result, err error) {
	if err := w.Prepare(ctx, run); err != nil {
		return nil, fmt.Errorf("%s: %w", w.Name, err)
	}
	if run.Place, err = g.Fresh(ctx); err != nil {
		return nil, err
	}
	run.Meter = g.Meter()
	res, err := w.Measure(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.Name, err)
	}
	return res, nil
}

// smallFile is more than a small file takes, on average.
const smallFile = 32 << 10

func roomFor(g Ground, z workload.Size) error {
	need := uint64(z.FileMiB)<<20 + uint64(2*z.TreeFiles+z.Files)*smallFile
	if have, ok := g.Room(); ok && have < need {
		return &SpaceError{Need: need, Have: have}
	}
	return nil
}
