package rpcrdma

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestProtocolTable checks that every row of docs/protocol.md names tests and
// files that exist, and cases that stand in the file of their test.
func TestProtocolTable(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "docs/protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	bodies := map[string]map[string]string{} // by package, test: the file that it is in
	testFile := func(pkg, name string) string {
		if bodies[pkg] == nil {
			bodies[pkg] = map[string]string{}
			files, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range regexp.MustCompile(`(?m)^func ([Tt]est\w+)\(`).FindAllStringSubmatch(string(b), -1) {
					bodies[pkg][m[1]] = string(b)
				}
			}
		}
		return bodies[pkg][name]
	}
	// A case's name may hold commas: it ends where the next test begins.
	next := regexp.MustCompile(`, (?:[a-z0-9/]+: )?[Tt]est`)
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 6 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[1]) == "Section" {
			continue
		}
		rows++
		for _, f := range strings.Split(cells[3], ",") {
			f = strings.TrimSpace(f)
			_, here := os.Stat(filepath.Join(root, "transport/rpcrdma", f))
			if _, err := os.Stat(filepath.Join(root, f)); here != nil && err != nil {
				t.Errorf("%s: %v", cells[2], err)
			}
		}
		rest := strings.TrimSpace(cells[4])
		tests := 0
		for rest != "" {
			one := rest
			if at := next.FindStringIndex(rest); at != nil {
				one, rest = rest[:at[0]], rest[at[0]+2:]
			} else {
				rest = ""
			}
			tests++
			pkg := "transport/rpcrdma"
			if i := strings.Index(one, ": "); i >= 0 {
				pkg, one = one[:i], one[i+2:]
				if !strings.Contains(pkg, "/") { // a room of transport/rpcrdma
					pkg = "transport/rpcrdma/" + pkg
				}
			}
			name, sub, _ := strings.Cut(one, "/")
			switch body := testFile(pkg, name); {
			case body == "":
				t.Errorf("%s: no test %s in %s", cells[2], name, pkg)
			case sub != "" && !strings.Contains(body, `"`+sub+`"`):
				t.Errorf("%s: %s has no case %q", cells[2], name, sub)
			}
		}
		if tests == 0 {
			t.Errorf("%s: no test", cells[2])
		}
	}
	if rows < 90 {
		t.Errorf("%d rows", rows)
	}
}
