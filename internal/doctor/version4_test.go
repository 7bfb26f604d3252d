package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// version4 makes the case one of version 4, whose calls were these: "OP" or "OP STATUS", and "OP -" without an answer.
func (r *rig) version4(calls ...string) {
	r.Version = 4
	for _, w := range []*fakeWay{&r.rdma, &r.soft, &r.tcp} {
		w.version = 4
		for _, c := range calls {
			op, status, _ := strings.Cut(c, " ")
			x := Compound{Op: op, Status: status}
			if status == "-" {
				x.Status, x.Err = "", context.DeadlineExceeded
			}
			w.compounds = append(w.compounds, x)
		}
	}
}

// TestSteps4: the calls of a mount of version 4 are steps with names; the one that failed has the cure, and what was not
// reached is no finding.
func TestSteps4(t *testing.T) {
	const section = "The export /export"
	mounted := []string{"EXCHANGE_ID", "CREATE_SESSION", "RECLAIM_COMPLETE", "GETATTR", "GETATTR", "LOOKUP"}
	failed := errors.New("no session; ask somebody")
	for _, c := range []struct {
		name  string
		calls []string
		err   error
		want  []string // "name status"
		says  string   // of the last step
		cure  string
	}{
		{"well", mounted, nil, []string{"client ID ok", "session ok", "reclaim ok", "pseudo root ok", "path ok", "admission ok"}, "", ""},
		{"the root", mounted[:5], nil, []string{"client ID ok", "session ok", "reclaim ok", "pseudo root ok", "admission ok"}, "", ""},
		{"an older minor version", append([]string{"EXCHANGE_ID MINOR_VERS_MISMATCH"}, mounted...), nil, []string{"client ID ok", "session ok", "reclaim ok", "pseudo root ok", "path ok", "admission ok"}, "", ""},
		{"minor version", []string{"EXCHANGE_ID MINOR_VERS_MISMATCH"}, failed, []string{"client ID failure", "admission skipped"}, "the server answered EXCHANGE_ID with MINOR_VERS_MISMATCH: no session", cures["MINOR_VERS_MISMATCH"]},
		{"delayed", []string{"EXCHANGE_ID", "CREATE_SESSION DELAY", "CREATE_SESSION DELAY", "CREATE_SESSION -"}, failed, []string{"client ID ok", "session failure", "admission skipped"}, "with DELAY", cures["DELAY"]},
		{"silent", []string{"EXCHANGE_ID -"}, failed, []string{"client ID failure", "admission skipped"}, "EXCHANGE_ID was not answered: no session", "ask somebody"},
		{"an unknown answer", []string{"EXCHANGE_ID NOT_ONLY_OP"}, failed, []string{"client ID failure", "admission skipped"}, "NOT_ONLY_OP", "ask somebody"},
		{"not connected", nil, failed, []string{"client ID skipped", "session skipped", "reclaim skipped", "pseudo root skipped", "path skipped", "admission failure"}, "no session", "ask somebody"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.version4(c.calls...)
			r.rdma.mount, r.soft.mount = c.err, c.err
			report := r.examine(t)
			var got []string
			for _, s := range report.Sections {
				for _, st := range s.Steps {
					if s.Title == section && slices.Contains([]string{"client ID", "session", "reclaim", "pseudo root", "path", "admission"}, st.Name) {
						got = append(got, fmt.Sprint(st.Name, " ", st.Status))
						if st.Status == Failure && (!strings.Contains(st.Detail, c.says) || st.Remedy != c.cure) {
							t.Errorf("%+v", st)
						}
					}
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			if report.OK != (c.err == nil) {
				t.Errorf("ok %v: %s", report.OK, report.Verdict)
			}
		})
	}
}

// TestGraceAndOwners: what a server of version 4 does not grant yet is a warning, and nothing more is tried then; by what
// names it knows owners is asked of a file that was made.
func TestGraceAndOwners(t *testing.T) {
	const section = "The export /export"
	late := fmt.Errorf("OPEN: server asked to try later: %w", context.DeadlineExceeded)
	for _, c := range []struct {
		name   string
		change func(x *fakeExport)
		calls  []string
		step   string
		status Status
		says   string
	}{
		{"opens", func(*fakeExport) {}, []string{"OPEN"}, "openings", OK, "opens files"},
		{"grace", func(x *fakeExport) { x.create = late }, []string{"OPEN GRACE", "OPEN -"}, "openings", Warning, "grace period"},
		{"grace, and no data", func(x *fakeExport) { x.create = late }, []string{"OPEN GRACE", "OPEN -"}, "transfer", Skipped, "no file"},
		{"grace, and no locks", func(x *fakeExport) { x.create = late }, []string{"OPEN GRACE", "OPEN -"}, "locks", Skipped, "none"},
		{"delay", func(x *fakeExport) { x.create = late }, []string{"OPEN DELAY", "OPEN -"}, "openings", Warning, "DELAY"},
		{"by number", func(*fakeExport) {}, []string{"OPEN"}, "owners", OK, "number"},
		{"cannot be set", func(x *fakeExport) { x.chown = errors.New("PERM") }, []string{"OPEN"}, "owners", Skipped, "PERM"},
		{"nobody's", func(x *fakeExport) { x.owner = nobody }, []string{"OPEN"}, "owners", Warning, "belongs to nobody"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.version4(append([]string{"EXCHANGE_ID", "CREATE_SESSION", "RECLAIM_COMPLETE", "GETATTR", "LOOKUP"}, c.calls...)...)
			c.change(r.rdma.export)
			report := r.examine(t)
			st := find(t, report, section, c.step)
			if st.Status != c.status || !strings.Contains(st.Detail, c.says) || (st.Status == Warning) != (st.Remedy != "") {
				t.Errorf("%+v", st)
			}
			if !report.OK {
				t.Error(report.Verdict)
			}
		})
	}
}
