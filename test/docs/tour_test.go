package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// functions are those that a file declares, methods as Type.Method.
func functions(file string) ([]string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			all = append(all, receiver(d)+d.Name.Name)
		case *ast.GenDecl:
			// Methods that an interface declares.
			for _, s := range d.Specs {
				t, ok := s.(*ast.TypeSpec)
				if !ok {
					continue
				}
				i, ok := t.Type.(*ast.InterfaceType)
				if !ok {
					continue
				}
				for _, m := range i.Methods.List {
					for _, n := range m.Names {
						all = append(all, t.Name.Name+"."+n.Name)
					}
				}
			}
		}
	}
	return all, nil
}

// receiver is "Type." for a method of Type or *Type.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	e := d.Recv.List[0].Type
	for {
		switch t := e.(type) {
		case *ast.StarExpr:
			e = t.X
		case *ast.IndexExpr:
			e = t.X
		case *ast.IndexListExpr:
			e = t.X
		case *ast.Ident:
			return t.Name + "."
		default:
			return ""
		}
	}
}

// tours are what ARCHITECTURE.md must show the way of.
var tours = []string{"READ", "Buffered WRITE with COMMIT", "READDIRPLUS", "LOOKUP", "Unlink of an open file"}

// TestTour checks that each step of the tour through the code names a function
// that is declared in the file it names. A step is a row of a table:
//
//	| [FS.Read](fs/ops_file.go) | what it does |
func TestTour(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text2, found := strings.Cut(string(text), "\n## A tour of the code\n")
	if !found {
		t.Fatal("ARCHITECTURE.md has no tour")
	}
	tour, _, _ := strings.Cut(text2, "\n## ")
	step := regexp.MustCompile("^\\| \\[`([\\w.]+)`\\]\\(([\\w./]+)\\) \\| \\S.* \\|$")
	declared := map[string][]string{}
	steps := map[string]int{}
	heading := ""
	for line := range strings.Lines(tour) {
		line = strings.TrimRight(line, "\n")
		if h, ok := strings.CutPrefix(line, "### "); ok {
			heading = h
			continue
		}
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| function") {
			continue
		}
		m := step.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("%s: not a step: %s", heading, line)
			continue
		}
		steps[heading]++
		name, file := m[1], m[2]
		if declared[file] == nil {
			if declared[file], err = functions(file); err != nil {
				t.Errorf("%s: %v", heading, err)
				continue
			}
		}
		if !slices.Contains(declared[file], name) {
			t.Errorf("%s: %s does not declare %s", heading, file, name)
		}
	}
	for _, h := range tours {
		if steps[h] < 5 {
			t.Errorf("%q has %d steps", h, steps[h])
		}
	}
}
