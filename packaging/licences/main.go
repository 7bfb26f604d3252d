// Command licences prints the licences of everything that is linked into a program:
// of this module, of each module that the package imports, and of Go's own library.
//
//	go run ./packaging/licences ./cmd/rdmafs
//
// They are read from the module cache. A module without one is an error: it could
// not be given to anybody.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "licences: wants one package")
		os.Exit(1)
	}
	modules, err := linked(os.Args[1])
	if err == nil {
		err = write(os.Stdout, modules)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

// module is what "go list" says of one.
type module struct {
	Path, Version, Dir string
	Main               bool
}

func (m *module) name() string { return strings.TrimSpace(m.Path + " " + m.Version) }

// linked are the modules of which a program is made: its own first, Go's library
// last.
func linked(pkg string) ([]module, error) {
	out, err := command("go", "list", "-deps", "-json=Module", pkg)
	if err != nil {
		return nil, err
	}
	seen := map[string]module{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ Module *module }
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if p.Module != nil {
			seen[p.Module.Path] = *p.Module
		}
	}
	var all []module
	for _, m := range seen {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b module) int {
		if a.Main != b.Main {
			if a.Main {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Path, b.Path)
	})
	env, err := command("go", "env", "GOROOT", "GOVERSION")
	if err != nil {
		return nil, err
	}
	dir, version, _ := strings.Cut(strings.TrimSpace(string(env)), "\n")
	return append(all, module{Path: "Go's library", Version: version, Dir: dir}), nil
}

func command(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return out, nil
}

// names are what files with licences are called, compared without an ending.
var names = []string{"license", "licence", "copying", "copyright", "notice", "patents"}

// texts are the files of a module with its licence, in order.
func (m *module) texts() (found []string, err error) {
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.name(), err)
	}
	for _, e := range entries {
		base := strings.ToLower(strings.TrimSuffix(e.Name(), filepath.Ext(e.Name())))
		if e.Type().IsRegular() && slices.Contains(names, base) && filepath.Ext(e.Name()) != ".go" {
			found = append(found, filepath.Join(m.Dir, e.Name()))
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no licence in %s", m.name(), m.Dir)
	}
	return found, nil
}

func write(w io.Writer, modules []module) error {
	var b bytes.Buffer
	b.WriteString("rdmafs is made of these parts:\n\n")
	for k := range modules {
		m := &modules[k]
		if m.Main {
			m.Version = "" // a file should not differ for the version alone
		}
		fmt.Fprintf(&b, "  %s\n", m.name())
	}
	b.WriteString("\nCopyright and licence of each:\n")
	for k := range modules {
		m := &modules[k]
		files, err := m.texts()
		if err != nil {
			return err
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			line := strings.Repeat("-", 78)
			fmt.Fprintf(&b, "\n%s\n%s, %s\n%s\n\n%s\n", line, m.name(), filepath.Base(f), line, bytes.TrimSpace(text))
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}
