package mount

import (
	"encoding/json"
	"testing"

	"github.com/rdmafs/rdmafs/internal/doctor"
)

// Doctor runs "rdmafs doctor --json" and checks that its exit code says what
// its report says. words are mount options.
func Doctor(t testing.TB, wrapper []string, words string, args ...string) doctor.Report {
	t.Helper()
	line := append([]string{"doctor", "--json"}, args...)
	if words != "" {
		line = append(line, "-o", words)
	}
	r := Command(t, wrapper, line...)
	var report doctor.Report
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil {
		t.Fatalf("%q: %v in %q, and on standard error %q", line, err, r.Stdout, r.Stderr)
	}
	if (r.Code == 0) != report.OK || !report.OK && r.Code != 32 {
		t.Errorf("%q: exit code %d, and the report says %v: %s", line, r.Code, report.OK, report.Verdict)
	}
	return report
}

// FindStep is the first step of a name in a report, of whatever section, that
// was not skipped if there is one.
func FindStep(t testing.TB, r doctor.Report, name string) doctor.Step {
	t.Helper()
	var skipped *doctor.Step
	for _, s := range r.Sections {
		for _, st := range s.Steps {
			switch {
			case st.Name != name:
			case st.Status == doctor.Skipped:
				skipped = &st
			default:
				return st
			}
		}
	}
	if skipped == nil {
		t.Fatalf("no step %q in %+v", name, r)
	}
	return *skipped
}
