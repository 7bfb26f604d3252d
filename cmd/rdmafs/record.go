package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/rdmafs/rdmafs/internal/plot"
	"github.com/rdmafs/rdmafs/transport/account"
)

// maxMoments bounds what is recorded of a mount. When it is reached, neighbours become one: a
// recording of any length fits a page.
const maxMoments = 600

// maxRecorded bounds the mounts of a recording.
const maxRecorded = 64

// recording is what top has seen of all mounts.
type recording struct {
	begin  time.Time
	mounts []*recorded
	left   int // mounts that are not recorded, as there are too many
}

// recorded is what top has seen of one mount.
type recorded struct {
	dir, source, how, server string
	moments                  []moment
	procedures               []account.Procedure // of all moments
}

// moment is what a mount did until a time, in the seconds before.
type moment struct {
	at, seconds                   float64
	calls, sent, received, errors float64
	dirty                         float64
	took                          account.Times
	waiting                       int
}

// add records rows of top, but for the first, which are of the time since each mount.
func (r *recording) add(rows []topRow, now time.Time) {
	for k := range rows {
		t := &rows[k]
		if !t.mount.answered() || !t.differs {
			continue
		}
		at := slices.IndexFunc(r.mounts, func(m *recorded) bool { return m.dir == t.mount.MountPoint })
		if at < 0 {
			if len(r.mounts) == maxRecorded {
				r.left++
				continue
			}
			at = len(r.mounts)
			r.mounts = append(r.mounts, &recorded{dir: t.mount.MountPoint})
		}
		m := r.mounts[at]
		m.source, m.how, m.server = t.did.Source, t.did.Transport, t.did.Server
		one := moment{at: now.Sub(r.begin).Seconds(), seconds: t.did.Age, calls: float64(t.did.Calls.Calls), sent: float64(t.did.Calls.BytesSent),
			received: float64(t.did.Calls.BytesReceived), dirty: float64(t.did.State.DirtyBytes), waiting: len(t.did.State.Requests)}
		for i := range t.did.Procedures {
			p := &t.did.Procedures[i]
			merge(&one.took, &p.Execution)
			one.errors += float64(p.Errors)
			m.sum(p)
		}
		m.moments = append(m.moments, one)
		if len(m.moments) >= maxMoments {
			m.halve()
		}
	}
}

// sum adds what a procedure did to what it has done.
func (m *recorded) sum(p *account.Procedure) {
	at := slices.IndexFunc(m.procedures, func(o account.Procedure) bool { return o.Program == p.Program && o.Procedure == p.Procedure })
	if at < 0 {
		m.procedures = append(m.procedures, account.Procedure{Program: p.Program, Procedure: p.Procedure})
		at = len(m.procedures) - 1
	}
	o := &m.procedures[at]
	o.Calls += p.Calls
	o.Errors += p.Errors
	o.BytesSent += p.BytesSent
	o.BytesReceived += p.BytesReceived
	merge(&o.Execution, &p.Execution)
}

// merge adds what o holds to t, and keeps t small.
func merge(t, o *account.Times) {
	t.Merge(o)
	into := t.Buckets[:0]
	for _, b := range t.Buckets {
		if n := len(into); n > 0 && into[n-1].UpToNS == b.UpToNS {
			into[n-1].Count += b.Count
		} else {
			into = append(into, b)
		}
	}
	t.Buckets = into
}

// halve makes one moment of each two.
func (m *recorded) halve() {
	var half []moment
	for k := 0; k+1 < len(m.moments); k += 2 {
		a, b := m.moments[k], m.moments[k+1]
		merge(&b.took, &a.took)
		b.seconds += a.seconds
		b.calls += a.calls
		b.sent += a.sent
		b.received += a.received
		b.errors += a.errors
		b.dirty = max(a.dirty, b.dirty)
		b.waiting = max(a.waiting, b.waiting)
		half = append(half, b)
	}
	if len(m.moments)%2 == 1 {
		half = append(half, m.moments[len(m.moments)-1])
	}
	m.moments = half
}

// page is the recording as a page with plots.
func (r *recording) page(now time.Time) *plot.Page {
	p := &plot.Page{Title: "rdmafs top", Made: now}
	whole := plot.Section{Heading: "Recording", Notes: []string{fmt.Sprintf("From %s on, for %s.", r.begin.Format(time.RFC1123Z), now.Sub(r.begin).Round(time.Second))}}
	if len(r.mounts) == 0 {
		whole.Notes = append(whole.Notes, "No mount was seen twice: nothing can be said of what was done in between.")
	}
	if r.left > 0 {
		whole.Notes = append(whole.Notes, fmt.Sprintf("There were more than %d mounts: the others are left out.", maxRecorded))
	}
	p.Sections = append(p.Sections, whole)
	for _, m := range r.mounts {
		p.Sections = append(p.Sections, m.section())
	}
	return p
}

func (m *recorded) section() plot.Section {
	var at []float64
	lines := make(map[string][]float64)
	heat := plot.Heat{Title: "How long calls took, darker where there were more"}
	for k := range m.moments {
		o := &m.moments[k]
		seconds := max(o.seconds, 1e-3)
		at = append(at, o.at)
		for name, v := range map[string]float64{"calls": o.calls / seconds, "errors": o.errors / seconds, "sent": o.sent / seconds, "received": o.received / seconds,
			"dirty": o.dirty, "waiting": float64(o.waiting)} {
			lines[name] = append(lines[name], v)
		}
		column := make(map[time.Duration]uint64)
		for _, b := range o.took.Buckets {
			column[time.Duration(b.UpToNS)] += b.Count
		}
		heat.Columns = append(heat.Columns, column)
	}
	heat.At = at
	series := func(names ...string) (all []plot.Series) {
		for _, n := range names {
			all = append(all, plot.Series{Name: n, Values: lines[n]})
		}
		return all
	}
	table := plot.Table{Head: []string{"procedure", "calls", "errors", "MB sent", "MB received", "mean ms", "p50 ms", "p99 ms"}}
	share := plot.Bars{Title: "Time spent in calls", Unit: "seconds"}
	slices.SortStableFunc(m.procedures, func(a, b account.Procedure) int {
		return int(min(max(int64(b.Execution.SumNS)-int64(a.Execution.SumNS), -1), 1))
	})
	for k := range m.procedures {
		o := &m.procedures[k]
		ms := func(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/1e6) }
		share.Bars = append(share.Bars, plot.Bar{Name: o.Procedure, Value: float64(o.Execution.SumNS) / 1e9})
		table.Rows = append(table.Rows, []string{o.Program + " " + o.Procedure, fmt.Sprint(o.Calls), fmt.Sprint(o.Errors), fmt.Sprintf("%.1f", float64(o.BytesSent)/1e6),
			fmt.Sprintf("%.1f", float64(o.BytesReceived)/1e6), ms(o.Execution.Mean()), ms(o.Execution.Quantile(0.5)), ms(o.Execution.Quantile(0.99))})
	}
	return plot.Section{
		Heading: m.dir,
		Notes:   []string{fmt.Sprintf("%s, %s to %s", m.source, m.how, m.server)},
		Plots: []plot.Plot{
			plot.Lines{Title: "Throughput", Unit: "B/s", At: at, Series: series("received", "sent")},
			plot.Lines{Title: "Calls", Unit: "1/s", At: at, Series: series("calls", "errors")},
			heat,
			plot.Lines{Title: "Not yet written", Unit: "B", At: at, Series: series("dirty")},
			plot.Lines{Title: "Requests that wait", Unit: "", At: at, Series: series("waiting")},
			share,
		},
		Tables: []plot.Table{table},
	}
}
