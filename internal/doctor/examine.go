package doctor

import (
	"context"
	"errors"

	"github.com/rdmafs/rdmafs/verbs/rdmadev"
)

// examination is a Case under way.
type examination struct {
	*Case
	report Report
	rdma   []rdmadev.Device // of this machine
	show   func(Section)
	found  []contacted // one for each of Ways
}

// Examine walks the chain. show is given each section as it is complete.
func Examine(ctx context.Context, c *Case, show func(Section)) *Report {
	e := &examination{Case: c, report: Report{Target: c.Target}, rdma: c.Devices.Devices(), show: show}
	e.put(e.machine())
	e.put(e.devices())
	if c.Target == "" {
		e.conclude("this machine is ready to mount", "this machine is not ready to mount")
		return &e.report
	}
	network, addrs := e.network(ctx)
	e.put(network)
	if len(addrs) == 0 {
		e.conclude("", "mount would fail")
		return &e.report
	}
	e.connectAll(ctx, addrs)
	defer e.closeAll()
	for _, s := range e.ways(ctx) {
		e.put(s)
	}
	e.put(e.export(ctx))
	if c.Export == "" {
		e.conclude("the server answers (name an export to try the mount itself)", "mount would fail")
		return &e.report
	}
	e.closeAll() // the trial has the devices and their memory to itself
	e.put(e.trial(ctx))
	e.conclude("mount would succeed", "mount would fail")
	return &e.report
}

// failed is the failure of a step by err.
func (e *examination) failed(name string, err error) Step {
	what, remedy := e.Explain(err)
	return failure(name, what, remedy)
}

func (e *examination) put(s Section) {
	if len(s.Steps) == 0 {
		return
	}
	e.report.Sections = append(e.report.Sections, s)
	e.show(s)
}

// conclude ends the report with one of two sentences, by whether anything
// failed.
func (e *examination) conclude(well, ill string) {
	f := e.report.firstFailure()
	e.report.OK = f == nil
	if f == nil {
		e.report.Verdict = well
		return
	}
	e.report.Verdict = ill + ": " + f.Name + ": " + f.Detail
}

// Err is nil if the mount would succeed.
func (r *Report) Err() error {
	if r.OK {
		return nil
	}
	return errors.New(r.Verdict)
}
