package fs

import (
	"errors"
	"testing"
)

// TestPlaceOf: a mount is found wherever it lies on top, and nothing else is
// taken for it.
func TestPlaceOf(t *testing.T) {
	const ours, other = "0:50", "0:51"
	for _, c := range []struct {
		name  string
		table []MountEntry
		want  string
		err   error
	}{
		{"there", []MountEntry{{Dir: "/", Device: "8:1"}, {Dir: "/mnt", Device: ours}}, "/mnt", nil},
		{"on another", []MountEntry{{Dir: "/mnt", Device: other}, {Dir: "/mnt", Device: ours}}, "/mnt", nil},
		{"detached", []MountEntry{{Dir: "/", Device: "8:1"}}, "", ErrDetached},
		{"detached, and another there", []MountEntry{{Dir: "/mnt", Device: other}}, "", ErrDetached},
		{"covered", []MountEntry{{Dir: "/mnt", Device: ours}, {Dir: "/mnt", Device: other}}, "", ErrCovered},
		{"moved", []MountEntry{{Dir: "/mnt", Device: other}, {Dir: "/new", Device: ours}}, "/new", nil},
		{"bound", []MountEntry{{Dir: "/bound", Device: ours}, {Dir: "/mnt", Device: ours}}, "/mnt", nil},
		{"covered here, not there", []MountEntry{{Dir: "/mnt", Device: ours}, {Dir: "/mnt", Device: other}, {Dir: "/b", Device: ours}}, "/b", nil},
	} {
		if got, err := placeOf(ours, "/mnt", c.table); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v, want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
}

func TestUnescapeMount(t *testing.T) {
	for in, want := range map[string]string{
		`/mnt`: "/mnt", `/a\040b`: "/a b", `/x\134y\011`: "/x\\y\t", `/end\04`: `/end\04`,
	} {
		if got := unescapeMount(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
