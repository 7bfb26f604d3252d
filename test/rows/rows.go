// Package rows reads the tables of the project's documents, and checks that the files and tests that their rows
// name are there. Tests that hold a table to the code use it.
//
// It owns the form of such rows: a column "Where" has files, and a column "Test" tests, with commas between them.
// A test is TestName or TestName/case, and stands in the folder that the document is about, or in the one named
// before it with a colon: "session: TestLease", "test/mount: TestVersion4". It refuses to know what the rows say.
//
// No state, no goroutines.
package rows

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Row is a row of a table. Cells are in the order of the table's columns.
type Row struct {
	// Heading is the last heading above the table.
	Heading        string
	Columns, Cells []string
}

// Cell is the cell of a column, "" if the table does not have it.
func (r *Row) Cell(column string) string {
	if i := slices.Index(r.Columns, column); i >= 0 && i < len(r.Cells) {
		return r.Cells[i]
	}
	return ""
}

// Read reads all rows of a Markdown document.
func Read(file string) (all []Row, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var columns []string
	heading := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
			heading = strings.TrimLeft(line, "# ")
		case !strings.HasPrefix(line, "|"):
			columns = nil
		default:
			var cells []string
			for c := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
				cells = append(cells, strings.TrimSpace(c))
			}
			switch {
			case columns == nil:
				columns = cells
			case strings.HasPrefix(cells[0], "---"):
			default:
				all = append(all, Row{heading, columns, cells})
			}
		}
	}
	return all, nil
}

// Checker finds the files and tests of rows.
type Checker struct {
	// Root is the module's directory, Folder the one that the document is about, from there.
	Root, Folder string
	bodies       map[string]map[string]string // by folder and test: the file that it is in
}

// A case's name may hold commas: it ends where the next test begins.
var next = regexp.MustCompile(`, (?:[a-z0-9/]+: )?[Tt]est`)

// Check returns what is wrong with a row that has a column Test.
func (c *Checker) Check(r *Row) (wrong []error) {
	fail := func(format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("%s: %s", strings.Join(r.Cells[:min(2, len(r.Cells))], ": "), fmt.Sprintf(format, args...)))
	}
	if len(r.Cells) != len(r.Columns) {
		fail("%d cells in %d columns", len(r.Cells), len(r.Columns))
	}
	if where := r.Cell("Where"); where != "" {
		for f := range strings.SplitSeq(where, ",") {
			f = strings.TrimSpace(f)
			_, here := os.Stat(filepath.Join(c.Root, c.Folder, f))
			if _, err := os.Stat(filepath.Join(c.Root, f)); here != nil && err != nil {
				fail("%v", err)
			}
		}
	}
	rest, tests := r.Cell("Test"), 0
	for rest != "" {
		one := rest
		if at := next.FindStringIndex(rest); at != nil {
			one, rest = rest[:at[0]], rest[at[0]+2:]
		} else {
			rest = ""
		}
		tests++
		folder := c.Folder
		if i := strings.Index(one, ": "); i >= 0 {
			folder, one = one[:i], one[i+2:]
			if _, err := os.Stat(filepath.Join(c.Root, folder)); err != nil { // a room of the folder
				folder = filepath.Join(c.Folder, folder)
			}
		}
		name, sub, _ := strings.Cut(one, "/")
		switch body := c.file(folder, name); {
		case body == "":
			fail("no test %s in %s", name, folder)
		case sub != "" && !strings.Contains(body, `"`+sub+`"`):
			fail("%s has no case %q", name, sub)
		}
	}
	if tests == 0 {
		fail("no test")
	}
	return wrong
}

var declaration = regexp.MustCompile(`(?m)^func ([Tt]est\w+)\(`)

// file is the text of the file that a test is in, "" if there is no such test.
func (c *Checker) file(folder, test string) string {
	if c.bodies[folder] == nil {
		if c.bodies == nil {
			c.bodies = map[string]map[string]string{}
		}
		c.bodies[folder] = map[string]string{}
		files, _ := filepath.Glob(filepath.Join(c.Root, folder, "*.go")) // the pattern is well formed
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				continue // as without it
			}
			for _, m := range declaration.FindAllStringSubmatch(string(b), -1) {
				c.bodies[folder][m[1]] = string(b)
			}
		}
	}
	return c.bodies[folder][test]
}
