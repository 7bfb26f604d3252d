package options_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/internal/options"
)

//go:generate go test -run ^TestDocument$ . -update

var update = flag.Bool("update", false, "write docs/options.md anew")

const document = "../../docs/options.md"

// sections are the parts of the document.
var sections = []struct {
	title, text string
	kind        options.Kind
}{
	{"Options", "", options.Effective},
	{"Options that change nothing", "They are taken from nfs(5), and say what is so anyway.", options.Inert},
	{"Options of mount(8) for the kernel", "They are handed to the kernel with the FUSE mount.", options.Passed},
	{"Options of mount(8) and fstab(5)", "They are ignored, as is every word that begins with `x-`.", options.Ignored},
	{"Options that are refused", "The error says the same.", options.Refused},
}

const introduction = `# Mount options

<!-- Made by go generate ./internal/options from the table in internal/options/table.go. -->

Options stand behind ` + "`-o`" + ` of ` + "`rdmafs mount`" + `, ` + "`rdmafs doctor`" + ` and ` + "`rdmafs bench`" + `, in the fourth field of fstab(5), and in ` + "`Options.Mount`" + ` of the Go
package, with commas between. Of contradicting options the last one holds. An option that is not here is an error that names it.
Times are in the units of nfs(5).
`

// cell is text for a cell of a table.
func cell(s string) string {
	if s == "" {
		return "–"
	}
	return strings.ReplaceAll(s, "|", `\|`)
}

// markdown is the document.
func markdown() string {
	var b strings.Builder
	b.WriteString(introduction)
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n", s.title)
		if s.text != "" {
			fmt.Fprintf(&b, "%s\n\n", s.text)
		}
		var words []string
		switch s.kind {
		case options.Refused:
			b.WriteString("| option | why, and what to do |\n|---|---|\n")
		case options.Effective, options.Inert:
			b.WriteString("| option | default | meaning | nfs(5) |\n|---|---|---|---|\n")
		}
		for _, o := range options.Table {
			switch {
			case o.Kind != s.kind:
			case s.kind == options.Refused:
				fmt.Fprintf(&b, "| `%s` | %s |\n", o.Usage(), cell(o.Meaning))
			case s.kind == options.Effective || s.kind == options.Inert:
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", cell(o.Usage()), cell(o.Default), cell(cmp.Or(o.Detail, o.Meaning)), cell(o.NFS))
			default:
				words = append(words, "`"+o.Usage()+"`")
			}
		}
		if len(words) > 0 {
			fmt.Fprintf(&b, "%s\n", strings.Join(words, ", "))
		}
	}
	return b.String()
}

// TestDocument: docs/options.md has every option as the table has it.
func TestDocument(t *testing.T) {
	want := markdown()
	if *update {
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/options.md is not what the table of options says: go generate ./internal/options")
	}
	for _, o := range options.Table {
		if !strings.Contains(want, "`"+cell(o.Usage())+"`") {
			t.Errorf("%s is in no section", o.Name)
		}
	}
}
