package doctor

import (
	"fmt"
	"io"

	"github.com/rdmafs/rdmafs/internal/plain"
)

// Columns of a step: its status, its name, and then the detail.
const (
	statusWidth = 8
	nameWidth   = 18
)

// WriteSection prints a section for people.
func WriteSection(w io.Writer, s Section) {
	plain.Fprintf(w, "%s\n", s.Title)
	for _, st := range s.Steps {
		plain.Fprintf(w, "  %-*s %-*s %s\n", statusWidth, st.Status, nameWidth, st.Name, st.Detail)
		if st.Remedy != "" {
			plain.Fprintf(w, "  %*s %*s -> %s\n", statusWidth, "", nameWidth, "", st.Remedy)
		}
	}
	fmt.Fprintln(w)
}

// WriteVerdict prints how it ended.
func WriteVerdict(w io.Writer, r *Report) { plain.Fprintf(w, "%s\n", r.Verdict) }
