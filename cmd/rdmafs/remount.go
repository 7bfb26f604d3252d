package main

import (
	"fmt"

	"github.com/rdmafs/rdmafs/internal/control"
	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/internal/source"
)

// remount has the daemon of a mount change it by a list of options. args are those of mount, of
// which a source must be what is mounted; it may be left out.
func remount(args []string, list string) error {
	if len(args) < 1 || len(args) > 2 {
		return withCode(exitUsage, fmt.Errorf("mount -o remount wants MOUNTPOINT, and SERVER:/EXPORT before it if you like, got %d arguments", len(args)))
	}
	dir, err := mountPointArg(args[len(args)-1])
	if err != nil {
		return withCode(exitUsage, err)
	}
	m, ok, err := mounttable.Find(dir)
	switch {
	case err != nil:
		return withCode(exitSystem, err)
	case !ok || m.Type != "fuse.rdmafs":
		return withCode(exitUsage, fmt.Errorf("%s: no mount of rdmafs is there to change", dir))
	}
	if len(args) == 2 {
		s, err := source.Parse(args[0])
		if err != nil {
			return withCode(exitUsage, err)
		}
		if s.Text != m.Source {
			return withCode(exitUsage, fmt.Errorf("%s: what is mounted there is %s, not %s", dir, m.Source, s.Text))
		}
	}
	failed, err := control.Remount(dir, m.Device, list)
	switch {
	case err != nil:
		return withCode(exitFail, fmt.Errorf("%s: %w%s", dir, err, remains(dir, err)))
	case failed != "":
		return withCode(exitFail, fmt.Errorf("%s: not changed: %s", dir, failed))
	}
	return nil
}

// debugWord adds what -d says to a list of options.
func debugWord(list string, debug bool) string {
	word := "nodebug"
	if debug {
		word = "debug"
	}
	if list == "" {
		return word
	}
	return list + "," + word
}
