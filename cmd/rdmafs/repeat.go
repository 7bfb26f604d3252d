package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// repeat is how often a command reports.
type repeat struct {
	interval float64
	count    int
}

func (r *repeat) add(cmd *cobra.Command) {
	cmd.Flags().Float64Var(&r.interval, "interval", r.interval, "report again after so many seconds")
	cmd.Flags().IntVarP(&r.count, "count", "n", 0, "end after so many reports (0: go on until interrupted)")
}

func (r *repeat) repeats() bool { return r.interval > 0 }

// each calls report once, or each interval with how often it was called before, until count is reached, ctx ends or
// report fails.
func (r *repeat) each(ctx context.Context, report func(n int) error) error {
	const least, most = 0.05, 86400
	if r.interval != 0 && !(r.interval >= least && r.interval <= most) {
		return withCode(exitUsage, fmt.Errorf("--interval wants seconds from %v to %v", least, most))
	}
	if r.count < 0 || r.count > 0 && !r.repeats() {
		return withCode(exitUsage, fmt.Errorf("--count wants a positive number, and --interval with it"))
	}
	if !r.repeats() {
		return report(0)
	}
	if ctx == nil {
		ctx = context.Background()
	}
	tick := time.NewTicker(time.Duration(r.interval * float64(time.Second)))
	defer tick.Stop()
	for n := 0; ; {
		if err := report(n); err != nil {
			return err
		}
		if n++; n == r.count {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
