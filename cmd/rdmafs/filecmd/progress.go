package filecmd

import (
	"fmt"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/internal/transfer"
)

// progressInterval is how often progress is shown.
const progressInterval = time.Second

// eraseLine has a terminal go back to the start of its line and clear it.
const eraseLine = "\r\x1b[K"

// watch shows how far a copy is until done is called: on one line of a terminal, and if asked
// for by a line each time elsewhere.
func (r *run) watch(p *transfer.Progress, asked bool) (done func()) {
	terminal := isTerminal(r.errs)
	if !terminal && !asked {
		return func() {}
	}
	begin := time.Now()
	end := make(chan struct{})
	var ended sync.WaitGroup
	show := func(line string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if terminal {
			fmt.Fprint(r.errs, eraseLine, line)
			return
		}
		fmt.Fprintln(r.errs, line)
	}
	runProgress := func() {
		t := time.NewTicker(progressInterval)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				show(progressLine(p.Count(), time.Since(begin)))
			case <-end:
				return
			}
		}
	}
	if terminal {
		r.clear = eraseLine
	}
	ended.Go(runProgress)
	return func() {
		close(end)
		ended.Wait()
		show(progressLine(p.Count(), time.Since(begin)))
		if terminal {
			fmt.Fprintln(r.errs)
		}
	}
}

// progressLine says how far a copy is after a time.
func progressLine(c transfer.Count, after time.Duration) string {
	s := max(after.Seconds(), 1e-3)
	rate := float64(c.Bytes) / s
	line := fmt.Sprintf("%d of %d files, %s of %s, %s/s", c.Files, c.FilesFound, size(c.Bytes), size(c.BytesFound), size(int64(rate)))
	switch left := c.BytesFound - c.Bytes; {
	case !c.All:
		return line + ", still looking"
	case left > 0 && rate > 0:
		return line + fmt.Sprintf(", %v left", time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second))
	}
	return line
}

// size is a number of bytes as people read it, as ls -h and du -h put it.
func size(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprint(n)
	}
	v, u := float64(n)/1024, 0
	for v >= 1023.5 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	if v < 9.95 {
		return fmt.Sprintf("%.1f%c", v, units[u])
	}
	return fmt.Sprintf("%.0f%c", v, units[u])
}
