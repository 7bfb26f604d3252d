package doctor

import (
	"encoding/json"
	"fmt"
	"io"
)

// Columns of a step: its status, its name, and then the detail.
const (
	statusWidth = 8
	nameWidth   = 18
)

// WriteSection prints a section for people.
func WriteSection(w io.Writer, s Section) {
	fmt.Fprintf(w, "%s\n", s.Title)
	for _, st := range s.Steps {
		fmt.Fprintf(w, "  %-*s %-*s %s\n", statusWidth, st.Status, nameWidth, st.Name, st.Detail)
		if st.Remedy != "" {
			fmt.Fprintf(w, "  %*s %*s -> %s\n", statusWidth, "", nameWidth, "", st.Remedy)
		}
	}
	fmt.Fprintln(w)
}

// WriteVerdict prints how it ended.
func WriteVerdict(w io.Writer, r *Report) { fmt.Fprintln(w, r.Verdict) }

// WriteJSON prints a whole report for programs.
func WriteJSON(w io.Writer, r *Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}
