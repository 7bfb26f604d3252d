package filecmd

import (
	"fmt"
	"path"
	"strings"

	"github.com/rdmafs/rdmafs/internal/source"
)

// operand is a file that a command was given.
type operand struct {
	text   string
	server source.Source // of a remote one; Export is the path there, clean
	remote bool
}

// parseOperand takes SERVER:/PATH, or a path of this machine: one that has no colon before
// its first slash.
func parseOperand(s string) (operand, error) {
	if s == "" {
		return operand{}, fmt.Errorf("an empty name")
	}
	rest := s
	if end := strings.IndexByte(s, ']'); s[0] == '[' && end > 0 {
		rest = s[end:]
	}
	before, _, colon := strings.Cut(rest, ":")
	if !colon || strings.Contains(before, "/") {
		return operand{text: s}, nil
	}
	src, err := source.Parse(s)
	if err != nil {
		return operand{}, fmt.Errorf("%w (a file of this machine with a colon in its name is written ./%s)", err, s)
	}
	server := s[:len(s)-len(src.Export)]
	src.Export = path.Clean(src.Export)
	src.Text = server + src.Export
	return operand{text: s, server: src, remote: true}, nil
}

// remoteOperand is parseOperand for commands that leave this machine's files to others.
func remoteOperand(s string) (operand, error) {
	o, err := parseOperand(s)
	if err == nil && !o.remote {
		err = fmt.Errorf("%q is not SERVER:/PATH", s)
	}
	return o, err
}

// at is the same server's path p.
func (o operand) at(p string) source.Source {
	s := o.server
	s.Text = s.Text[:len(s.Text)-len(s.Export)] + p
	s.Export = p
	return s
}
