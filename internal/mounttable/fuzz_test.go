package mounttable

import (
	"strings"
	"testing"
)

// FuzzMountTable: sources and mount points in the table are other people's
// words. What is read of a line has the fields that a line must have.
func FuzzMountTable(f *testing.F) {
	for _, table := range []string{
		"36 35 0:52 / /mnt/a\\040b rw,noatime shared:1 - fuse.rdmafs server:/export rw,user_id=1000,group_id=1000,allow_other\n",
		"1 0 8:1 / / rw - ext4 /dev/root rw\n", "1 2 3 - 5\n", "- - - - - - -\n", "a b c d \\ - x y user_id=-1\n", "\\999 \\4\n", "\n\n",
		strings.Repeat("x", 1<<19),
	} {
		f.Add(table)
	}
	f.Fuzz(func(t *testing.T, table string) {
		all, err := parse(strings.NewReader(table))
		if err != nil {
			return
		}
		if lines := strings.Count(table, "\n") + 1; len(all) > lines {
			t.Fatalf("%d mounts in %d lines", len(all), lines)
		}
		for _, m := range all {
			if m.Dir == "" || m.Device == "" || m.Type == "" || m.Source == "" {
				t.Errorf("%q is read as %+v", table, m)
			}
		}
	})
}
