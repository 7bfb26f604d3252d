package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rdmafs/rdmafs/internal/look"
	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// mountPointArg is the absolute name of a mount point. A name that is in the mount
// table is not looked at: its server may not answer.
func mountPointArg(arg string) (string, error) {
	abs, err := look.Absolute(arg)
	if err != nil {
		return "", err
	}
	if _, ok, err := mounttable.Find(abs); ok || err != nil {
		return abs, err
	}
	s, err := look.Path(abs, true)
	switch {
	case errors.Is(err, look.ErrSilent):
		return "", fmt.Errorf("%s does not answer%s", arg, obstacle(s.At))
	case err != nil:
		return "", err
	case !s.Found:
		return abs, nil // and nothing is mounted on what is not there
	}
	return s.At, nil
}

// obstacle names, for a message, the mount that a path that does not answer lies
// on, and how to end it. It is empty for a file system on a disk.
func obstacle(path string) string {
	table, err := mounttable.Read()
	if err != nil {
		return ""
	}
	m := mounttable.Under(path, table)
	var end string
	switch {
	case m.Type == "fuse.rdmafs":
		end = "rdmafs umount -f " + m.Dir
	case m.Type == "fuse" || strings.HasPrefix(m.Type, "fuse."):
		end = "fusermount3 -uz " + m.Dir
	case m.Type == "nfs" || m.Type == "nfs4" || m.Type == "cifs":
		end = "umount -f -l " + m.Dir
	default:
		return ""
	}
	return fmt.Sprintf(": on %s lies a mount of %s, type %s (end it with: %s)", m.Dir, m.Source, m.Type, end)
}
