package doctor

// Status is how a step ended.
type Status string

const (
	OK      Status = "ok"
	Warning Status = "warning" // worth knowing; a mount works all the same
	Failure Status = "failure" // keeps the mount from succeeding
	Skipped Status = "skipped" // not tried; Detail says why
)

// Step is one finding, a line of the report.
type Step struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	// Remedy is what to do about it.
	Remedy string `json:"remedy,omitempty"`
	// Facts are for programs.
	Facts any `json:"facts,omitempty"`
}

// Section is a group of steps.
type Section struct {
	Title string `json:"title"`
	Steps []Step `json:"steps"`
}

func (s *Section) add(steps ...Step) { s.Steps = append(s.Steps, steps...) }

// last is the last step, in which the examination of a way ended.
func (s *Section) last() *Step { return &s.Steps[len(s.Steps)-1] }

// Report is everything that was found.
type Report struct {
	Target   string    `json:"target,omitempty"`
	Sections []Section `json:"sections"`
	// OK: a mount with the same arguments would succeed.
	OK bool `json:"ok"`
	// Verdict is that in a sentence.
	Verdict string `json:"verdict"`
}

func ok(name, detail string) Step              { return Step{Name: name, Status: OK, Detail: detail} }
func skipped(name, why string) Step            { return Step{Name: name, Status: Skipped, Detail: why} }
func warning(name, detail, remedy string) Step { return bad(Warning, name, detail, remedy) }
func failure(name, detail, remedy string) Step { return bad(Failure, name, detail, remedy) }

// bad is a step with a remedy, of a severity that depends on what the mount needs.
func bad(s Status, name, detail, remedy string) Step {
	return Step{Name: name, Status: s, Detail: detail, Remedy: remedy}
}

// firstFailure is the reason that the verdict gives; nil if there is none.
func (r *Report) firstFailure() *Step {
	for i := range r.Sections {
		for j := range r.Sections[i].Steps {
			if s := &r.Sections[i].Steps[j]; s.Status == Failure {
				return s
			}
		}
	}
	return nil
}
