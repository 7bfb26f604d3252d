package rows

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheck: a row is held to what it names, and each thing that is not there is told.
func TestCheck(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"doc.md": `# Doc
## One
| Rule | Where | Test |
|---|---|---|
| good | a.go, b/c.go | TestA, TestA/a case, with a comma, b: TestC |
| no file | d.go | TestA |
| no test | a.go | |
| another test | a.go | TestB |
| no case | a.go | TestA/none |
| no folder | a.go | none: TestA |
| too many | a.go | TestA | more |

Text.

| other | table |
|---|---|
| 1 | 2 |
`,
		"p/a.go":      "package p",
		"p/b/c.go":    "package b",
		"p/a_test.go": "func TestA(t *testing.T) { t.Run(\"a case, with a comma\", nil) }",
		"p/b/c_test.go": `package b
func TestC(t *testing.T) {
}`,
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if text = strings.ReplaceAll(text, "func TestA", "\nfunc TestA"); os.WriteFile(file, []byte(text), 0o644) != nil {
			t.Fatal(name)
		}
	}
	all, err := Read(filepath.Join(root, "doc.md"))
	if err != nil || len(all) != 8 {
		t.Fatal(all, err)
	}
	c := Checker{Root: root, Folder: "p"}
	for i, want := range []string{"", "d.go", "no test", "no test TestB", "no case", "no test TestA", "4 cells"} {
		r := &all[i]
		wrong := c.Check(r)
		if r.Heading != "One" || r.Cell("Rule") == "" || r.Cell("none") != "" {
			t.Errorf("%+v", r)
		}
		switch {
		case want == "" && len(wrong) > 0:
			t.Errorf("%s: %v", r.Cells[0], wrong)
		case want != "" && (len(wrong) != 1 || !strings.Contains(wrong[0].Error(), want)):
			t.Errorf("%s: %v, want %q", r.Cells[0], wrong, want)
		}
	}
	if last := &all[7]; last.Cell("table") != "2" {
		t.Errorf("%+v", last)
	}
}
