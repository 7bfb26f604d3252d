package fs

import (
	"maps"
	"slices"
	"testing"
)

func TestNamesAbove(t *testing.T) {
	const table = `20 1 8:1 / / rw - ext4 /dev/sda rw
30 20 0:50 / /mnt rw - fuse.rdmafs s:/x rw
31 30 0:60 / /mnt/a/b\040c rw - tmpfs t rw
32 31 0:61 / /mnt/a/b\040c/inner rw - tmpfs t rw
33 20 0:51 / /mnt2 rw - fuse.rdmafs s:/y rw
34 33 0:62 / /mnt2/other rw - tmpfs t rw
35 20 0:50 /deep/er /srv rw - fuse.rdmafs s:/x rw
36 35 0:63 / /srv/below rw - tmpfs t rw
37 30 0:64 / /mnt rw - tmpfs covers rw
short
`
	got := slices.Sorted(maps.Keys(namesAbove("0:50", table)))
	if want := []string{"a", "b c", "below", "deep", "er"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if n := len(namesAbove("0:99", table)); n != 0 {
		t.Errorf("%d names of a mount that is not there", n)
	}
}
