package coherence

import (
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// TestCompactAttributes: nothing is lost of attributes that are kept, whether the ChangeID
// follows from them or not, and of what is neither a device nor has a ChangeID of its own
// nothing stands apart.
func TestCompactAttributes(t *testing.T) {
	for _, sec := range []int64{0, 1, 1_700_000_000, 1<<32 - 1, -1 << 31, 15_000_000_000, -15_000_000_000, 1 << 50} {
		for _, change := range []nfsclient.ChangeID{
			nfsclient.ChangeByTimes(4, time.Unix(sec, 1), time.Unix(sec, 0)),
			nfsclient.ChangeByTimes(5, time.Unix(sec, 1), time.Unix(sec, 0)),
			nfsclient.ChangeByTimes(4, time.Unix(sec, 2), time.Unix(sec, 0)),
			nfsclient.ChangeByTimes(4, time.Unix(sec, 1), time.Unix(sec, 1)),
		} {
			for _, dev := range []nfsclient.Device{{}, {Major: 6}, {Minor: 7}} {
				a := nfsclient.Attr{Type: nfsclient.CharDevice, Mode: 0o4711, Nlink: 1, UID: 2, GID: 3, Size: 4, Used: 5, Rdev: dev,
					Atime: time.Unix(sec, 999_999_999), Mtime: time.Unix(sec, 1), Ctime: time.Unix(sec, 0), Change: change}
				kept := compact(&a)
				if got := kept.Full(a.Type); got != a {
					t.Errorf("%+v became %+v", a, got)
				}
				plain := near(a.Ctime) && dev == nfsclient.Device{} && change == nfsclient.ChangeByTimes(a.Size, a.Mtime, a.Ctime)
				if (kept.odd == nil) != plain {
					t.Errorf("%+v is kept with %+v apart", a, kept.odd)
				}
			}
		}
	}
}

// TestResize: a size that no reply has shown makes no other state of the file.
func TestResize(t *testing.T) {
	var c clock
	n, _ := in(quiet, &c)
	state := n.now()
	for _, size := range []uint64{10, 12, 5} {
		if n.Resize(size); n.Size != size || n.change() != state || n.now() != state {
			t.Errorf("of %d bytes, the state %v became %v, and everything agrees with %v", n.Size, state, n.change(), n.now())
		}
	}
	if e := n.Note(rules, Stamp{Gen: c.gen()}, c.gen(), attrs(10, 10)); e != 0 || n.Size != 10 || n.odd != nil {
		t.Errorf("what the server shows again is news: %d, %+v", e, n.Attrs)
	}
}
