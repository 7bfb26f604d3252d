package mounttable

import (
	"errors"
	"testing"
)

// TestLocate: a mount is found wherever it lies on top, and nothing else is
// taken for it.
func TestLocate(t *testing.T) {
	const ours, other = "0:50", "0:51"
	for _, c := range []struct {
		name  string
		table []Entry
		want  string
		err   error
	}{
		{"there", []Entry{{Dir: "/", Device: "8:1"}, {Dir: "/mnt", Device: ours}}, "/mnt", nil},
		{"on another", []Entry{{Dir: "/mnt", Device: other}, {Dir: "/mnt", Device: ours}}, "/mnt", nil},
		{"detached", []Entry{{Dir: "/", Device: "8:1"}}, "", ErrDetached},
		{"detached, and another there", []Entry{{Dir: "/mnt", Device: other}}, "", ErrDetached},
		{"covered", []Entry{{Dir: "/mnt", Device: ours}, {Dir: "/mnt", Device: other}}, "", ErrCovered},
		{"moved", []Entry{{Dir: "/mnt", Device: other}, {Dir: "/new", Device: ours}}, "/new", nil},
		{"bound", []Entry{{Dir: "/bound", Device: ours}, {Dir: "/mnt", Device: ours}}, "/mnt", nil},
		{"covered here, not there", []Entry{{Dir: "/mnt", Device: ours}, {Dir: "/mnt", Device: other}, {Dir: "/b", Device: ours}}, "/b", nil},
	} {
		if got, err := Locate(ours, "/mnt", c.table); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v, want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		`/mnt`: "/mnt", `/a\040b`: "/a b", `/x\134y\011`: "/x\\y\t", `/end\04`: `/end\04`,
	} {
		if got := Unescape(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestUnder: the nearest mount over a path is the one that it lies on.
func TestUnder(t *testing.T) {
	table := []Entry{{Dir: "/", Type: "ext4"}, {Dir: "/a", Type: "nfs"}, {Dir: "/a/b", Type: "fuse.x"}, {Dir: "/a/b", Type: "fuse.rdmafs"}}
	for path, want := range map[string]string{"/": "ext4", "/ab": "ext4", "/a": "nfs", "/a/bc": "nfs", "/a/b": "fuse.rdmafs", "/a/b/c": "fuse.rdmafs"} {
		if got := Under(path, table); got.Type != want {
			t.Errorf("%s lies on %+v, want %s", path, got, want)
		}
	}
}
