package checkup

import (
	"fmt"
	"time"

	"github.com/rdmafs/rdmafs/internal/doctor"
	"github.com/rdmafs/rdmafs/internal/status"
)

// longWait is after how many seconds a request that waits is worth a warning: a server under load is that late, and
// one that is away later.
const longWait = 10

// Running is what the report of a mount's daemon says of its health. What has been made good again, as lost connections
// and calls sent once more, is told and no warning.
func Running(r *status.Report) *doctor.Report {
	c := &r.Calls
	steps := []doctor.Step{
		step("daemon", doctor.OK, "", "process %d answers, NFS version %s over %s", r.PID, r.Version, r.Transport),
		server(r),
	}
	if r.State.NFS4 != nil {
		steps = append(steps, state4(r.State.NFS4))
	}
	waits := doctor.OK
	detail := "nothing waits for the server"
	if n := len(r.State.Requests); n > 0 {
		q := r.State.Requests[0]
		detail = fmt.Sprintf("%d requests wait, the oldest for %.1f s: %s of %s by process %d (%s)", n, q.Seconds, q.Request, q.Path, q.PID, q.Process)
		if q.Seconds >= longWait {
			waits = doctor.Warning
		}
	}
	steps = append(steps, step("requests", waits, "", "%s", detail),
		step("data", doctor.OK, "", "%d bytes are not safe on the server yet (rdmafs sync makes them so)", r.State.DirtyBytes),
		step("calls", doctor.OK, "", "%d calls, %d sent again, %d not answered in time, %d connections made", c.Calls, c.Resends, c.Timeouts, c.Connects))
	if n := c.BadReplies + c.BadXIDs; n > 0 {
		steps = append(steps, step("replies", doctor.Warning, "look at the server's log, and whether something on the way changes packets",
			"%d replies violate the protocol or belong to no call", n))
	}
	if r.LockNote != "" {
		steps = append(steps, step("locks", doctor.Warning, "", "%s", r.LockNote))
	}
	if r.Note != "" {
		steps = append(steps, step("buffers", doctor.Warning, "", "%s", r.Note))
	}
	if r.LoweredMTU > 0 {
		steps = append(steps, step("path MTU", doctor.Warning, "let the MTU be the same on the whole path", "larger RoCE packets than %d bytes are lost", r.LoweredMTU))
	}
	report := &doctor.Report{
		Target: r.MountPoint, OK: true, Verdict: "the mount is healthy",
		Sections: []doctor.Section{{Title: r.Source + " on " + r.MountPoint, Steps: steps}},
	}
	for _, s := range steps {
		if s.Status == doctor.Failure {
			report.OK, report.Verdict = false, s.Name+": "+s.Detail
		}
	}
	return report
}

// server says whether the server is there.
func server(r *status.Report) doctor.Step {
	st := &r.State
	since := ""
	if !st.Since.IsZero() {
		since = " since " + st.Since.Format(time.DateTime)
	}
	why := ""
	if st.LastError != "" {
		why = ": " + st.LastError
	}
	remedy := "rdmafs doctor " + r.Source + " with the options of the mount finds out why"
	switch st.State {
	case status.StateNotConnected:
		return step("server", doctor.Failure, remedy, "there is no connection to %s%s%s", r.Server, since, why)
	case status.StateNotResponding:
		return step("server", doctor.Failure, remedy, "%s does not respond%s%s", r.Server, since, why)
	case status.StateWaiting:
		return step("server", doctor.OK, "", "%s is connected, %d calls wait%s", r.Server, len(st.Calls), since)
	}
	return step("server", doctor.OK, "", "%s is connected%s", r.Server, since)
}

// state4 says whether the server knows what the mount has opened and locked.
func state4(n *status.NFS4) doctor.Step {
	if l := n.LastRecovery; l != nil && (n.Recovering || l.Ended.IsZero()) {
		return step("session", doctor.Warning, "a server that was restarted gives back what its clients had within its lease; the log says what it is at (rdmafs log)",
			"calls wait since %s until the session and the state of %d open files and %d locks are got back: %s", l.Began.Format(time.DateTime), n.Openings, n.Locks, l.Why)
	}
	return step("session", doctor.OK, "", "%d of %d slots in use, %d calls wait for one; the server keeps %d open files and %d locks; lost and got back %d times",
		n.SlotsInUse, n.SlotsUsable, n.CallsWaiting, n.Openings, n.Locks, n.Recoveries)
}

func step(name string, s doctor.Status, remedy, format string, args ...any) doctor.Step {
	return doctor.Step{Name: name, Status: s, Detail: fmt.Sprintf(format, args...), Remedy: remedy}
}
