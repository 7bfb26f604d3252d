package doctor

import (
	"context"
	"errors"

	"github.com/rdmafs/rdmafs/verbs/rdmadev"
)

// examination is a Case that is being examined.
type examination struct {
	*Case
	report Report
	rdma   []rdmadev.Device // of this machine
	show   func(Section)
	found  []attempt // one for each of Ways
	// version is Case.Version, or what the server turns out to have.
	version uint32
}

// Examine makes all steps in order. show is called with each section when it is
// complete.
func Examine(ctx context.Context, c *Case, show func(Section)) *Report {
	e := &examination{Case: c, report: Report{Target: c.Target}, rdma: c.Devices.Devices(), show: show, version: c.Version}
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
	e.put(e.kerberos(ctx))
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

// conclude ends the report with one of two sentences, by whether a step failed.
func (e *examination) conclude(success, failure string) {
	f := e.report.firstFailure()
	e.report.OK = f == nil
	if f == nil {
		e.report.Verdict = success
		return
	}
	e.report.Verdict = failure + ": " + f.Name + ": " + f.Detail
}

// Err is nil if the mount would succeed.
func (r *Report) Err() error {
	if r.OK {
		return nil
	}
	return errors.New(r.Verdict)
}
