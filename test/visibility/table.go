package visibility

import (
	"fmt"
	"slices"
	"strings"
)

// Table is a heading and rows of cells.
type Table [][]string

// String is the table as Markdown.
func (t Table) String() string {
	var b strings.Builder
	for i, row := range t {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return b.String()
}

// Find returns the table of a Markdown document whose heading begins with this cell; nil if there is none.
func Find(document, first string) Table {
	var t Table
	for line := range strings.Lines(document) {
		line, is := strings.CutPrefix(strings.TrimSpace(line), "|")
		if !is {
			if t != nil {
				return t
			}
			continue
		}
		cells := strings.Split(strings.TrimSuffix(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if t != nil && strings.Trim(cells[0], "-") == "" || t == nil && cells[0] != first {
			continue
		}
		t = append(t, cells)
	}
	return t
}

// Differences are the cells in which two tables differ, each as a line.
func Differences(got, want Table) (lines []string) {
	if len(got) != len(want) {
		lines = append(lines, fmt.Sprintf("%d rows, want %d", len(got), len(want)))
	}
	for i := range min(len(got), len(want)) {
		if i > 0 && len(got[i]) == len(want[i]) && got[i][0] == want[i][0] {
			for j := 1; j < len(got[i]); j++ {
				if got[i][j] != want[i][j] {
					lines = append(lines, fmt.Sprintf("%s; %s: %q, want %q", got[i][0], got[0][j], got[i][j], want[i][j]))
				}
			}
		} else if !slices.Equal(got[i], want[i]) {
			lines = append(lines, fmt.Sprintf("row %d is %q, want %q", i, got[i], want[i]))
		}
	}
	return lines
}
