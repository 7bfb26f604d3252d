package checkup

import (
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/internal/doctor"
	"github.com/rdmafs/rdmafs/internal/status"
)

// TestRunning: what is wrong with a mount is a warning or a failure under its name, and a healthy one has neither.
func TestRunning(t *testing.T) {
	for _, c := range []struct {
		step   string // which is not ok; "" if all are
		status doctor.Status
		change func(*status.Report)
	}{
		{"", "", func(*status.Report) {}},
		{"", "", func(r *status.Report) { r.Calls.Resends, r.Calls.Timeouts = 5, 5; r.State.LastError = "cut" }},
		{"", "", func(r *status.Report) { r.State.Requests = []status.Request{{Seconds: 1}} }},
		{"", "", func(r *status.Report) { r.State.State = status.StateWaiting }},
		{"", "", func(r *status.Report) {
			r.State.NFS4 = &status.NFS4{Recoveries: 1, LastRecovery: &status.Recovery{Why: "BADSESSION", Ended: time.Now()}}
		}},
		{"session", doctor.Warning, func(r *status.Report) {
			r.State.NFS4 = &status.NFS4{Recovering: true, LastRecovery: &status.Recovery{Why: "BADSESSION"}}
		}},
		{"requests", doctor.Warning, func(r *status.Report) { r.State.Requests = []status.Request{{Seconds: longWait}} }},
		{"server", doctor.Failure, func(r *status.Report) { r.State.State = status.StateNotConnected }},
		{"server", doctor.Failure, func(r *status.Report) { r.State.State = status.StateNotResponding }},
		{"replies", doctor.Warning, func(r *status.Report) { r.Calls.BadXIDs = 1 }},
		{"locks", doctor.Warning, func(r *status.Report) { r.LockNote = "no lock manager" }},
		{"buffers", doctor.Warning, func(r *status.Report) { r.Note = "less" }},
		{"path MTU", doctor.Warning, func(r *status.Report) { r.LoweredMTU = 1024 }},
	} {
		r := status.Report{State: status.State{State: status.StateOK}}
		c.change(&r)
		got := Running(&r)
		if got.OK == (c.status == doctor.Failure) || got.OK == (got.Err() != nil) {
			t.Errorf("%s: ok is %v, %v", c.step, got.OK, got.Err())
		}
		for _, s := range got.Sections[0].Steps {
			want := doctor.OK
			if s.Name == c.step {
				want = c.status
			}
			if s.Status != want {
				t.Errorf("%s: %s is %s: %s", c.step, s.Name, s.Status, s.Detail)
			}
		}
	}
}
