package metrics

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rdmafs/rdmafs/internal/status"
	"github.com/rdmafs/rdmafs/transport/account"
)

// Mount is a mount as its metrics have it. Source and MountPoint are those of the mount table.
type Mount struct {
	Source, MountPoint string
	// Report is what its daemon says; nil if it does not.
	Report *status.Report
}

// Source finds the mounts, each time that metrics are asked for.
type Source func() ([]Mount, error)

// maxProcedures and maxRequests bound what is taken of a report.
const (
	maxProcedures = 128
	maxRequests   = 64
)

// collector implements prometheus.Collector. What it collects differs from time to time, so that it describes nothing.
type collector struct{ mounts Source }

func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	all, err := c.mounts()
	if err != nil {
		to <- prometheus.NewInvalidMetric(up, err)
		return
	}
	seen := make(map[string]bool)
	for _, m := range slices.Backward(all) { // of those at one place the upper one
		if !seen[m.MountPoint] {
			seen[m.MountPoint] = true
			mount{m, to}.collect()
		}
	}
}

// mount is a mount whose metrics are collected.
type mount struct {
	Mount
	to chan<- prometheus.Metric
}

func (m mount) send(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
	all := append([]string{text(m.Source), text(m.MountPoint)}, labels...)
	metric, err := prometheus.NewConstMetric(d, kind, v, all...)
	if err != nil {
		return // its labels are of this package
	}
	m.to <- metric
}

// text is a label's value: UTF-8, and not longer than a path may be.
func text(s string) string {
	const most = 4096
	return strings.ToValidUTF8(s[:min(len(s), most)], "\ufffd")
}

func (m mount) collect() {
	r := m.Report
	answers := 0.0
	if r != nil {
		answers = 1
	}
	m.send(up, prometheus.GaugeValue, answers)
	if r == nil {
		return
	}
	connected := 0.0
	if r.State.State == status.StateOK || r.State.State == status.StateWaiting {
		connected = 1
	}
	m.send(serverUp, prometheus.GaugeValue, connected)
	m.send(dirty, prometheus.GaugeValue, float64(r.State.DirtyBytes))
	m.send(openFiles, prometheus.GaugeValue, float64(r.State.OpenFiles))
	m.send(waiting, prometheus.GaugeValue, float64(len(r.State.Calls)))
	oldest := 0.0
	for _, c := range r.State.Calls {
		oldest = max(oldest, c.Seconds)
	}
	m.send(oldestWait, prometheus.GaugeValue, oldest)
	m.counters()
	m.procedures()
	names := make([]string, 0, len(r.Requests))
	for name := range r.Requests {
		names = append(names, name)
	}
	slices.Sort(names)
	seen := make(map[string]bool)
	for _, name := range names[:min(len(names), maxRequests)] {
		if label := text(name); !seen[label] {
			seen[label] = true
			m.send(fuseRequests, prometheus.CounterValue, float64(r.Requests[name]), label)
		}
	}
}

func (m mount) counters() {
	c, h := &m.Report.Calls, &m.Report.Cache
	for _, n := range []struct {
		d      *prometheus.Desc
		v      uint64
		labels []string
	}{
		{connects, c.Connects, nil}, {connectFails, c.ConnectFails, nil}, {timeouts, c.Timeouts, nil},
		{creditWaits, c.CreditWaits, nil}, {badReplies, c.BadReplies + c.BadXIDs, nil}, {registrations, c.Registrations, nil},
		{transportBytes, c.BytesSent, []string{"sent"}}, {transportBytes, c.BytesReceived, []string{"received"}},
		{chunks, c.InlineCalls, []string{"inline"}}, {chunks, c.ReadChunks, []string{"read_chunk"}},
		{chunks, c.PositionZero, []string{"position_zero"}}, {chunks, c.WriteChunks, []string{"write_chunk"}},
		{chunks, c.ReplyChunks, []string{"reply_chunk"}},
		{cacheLookups, h.AttributeHits, []string{"attributes", "hit"}}, {cacheLookups, h.AttributeMisses, []string{"attributes", "miss"}},
		{cacheLookups, h.NameHits, []string{"names", "hit"}}, {cacheLookups, h.NameMisses, []string{"names", "miss"}},
		{cacheLookups, h.DataHits, []string{"data", "hit"}}, {cacheLookups, h.DataMisses, []string{"data", "miss"}},
	} {
		m.send(n.d, prometheus.CounterValue, float64(n.v), n.labels...)
	}
	m.send(registered, prometheus.GaugeValue, float64(c.RegisteredBytes))
}

func (m mount) procedures() {
	type name struct{ program, procedure string }
	seen := make(map[name]bool)
	all := m.Report.Procedures
	for i := range all[:min(len(all), maxProcedures)] {
		p := &all[i]
		n := name{text(p.Program), text(p.Procedure)}
		if seen[n] {
			continue
		}
		seen[n] = true
		m.send(procedureErrors, prometheus.CounterValue, float64(p.Errors), n.program, n.procedure)
		m.send(procedureResends, prometheus.CounterValue, float64(p.Resends), n.program, n.procedure)
		m.send(procedureBytes, prometheus.CounterValue, float64(p.BytesSent), n.program, n.procedure, "sent")
		m.send(procedureBytes, prometheus.CounterValue, float64(p.BytesReceived), n.program, n.procedure, "received")
		m.histogram(queueTime, &p.Queue, n.program, n.procedure)
		m.histogram(tripTime, &p.RTT, n.program, n.procedure)
		m.histogram(executionTime, &p.Execution, n.program, n.procedure)
	}
}

// bounds are those of the histograms' buckets: powers of 4 from 16 µs to 67 s, which are bounds of account's, too, so that
// nothing counts in a wrong one.
var bounds = func() (all []time.Duration) {
	for d := time.Duration(1 << 14); d <= 1<<36; d <<= 2 {
		all = append(all, d)
	}
	return all
}()

func (m mount) histogram(d *prometheus.Desc, t *account.Times, labels ...string) {
	cumulative := make(map[float64]uint64, len(bounds))
	for _, b := range bounds {
		n := uint64(0)
		for _, had := range t.Buckets {
			if had.UpToNS <= uint64(b) {
				n += had.Count
			}
		}
		cumulative[b.Seconds()] = n
	}
	all := append([]string{text(m.Source), text(m.MountPoint)}, labels...)
	h, err := prometheus.NewConstHistogram(d, t.Count(), math.Max(float64(t.SumNS)/1e9, 0), cumulative, all...)
	if err != nil {
		return // its labels are of this package
	}
	m.to <- h
}
