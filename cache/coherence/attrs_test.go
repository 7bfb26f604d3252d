package coherence

import (
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// TestCompactAttributes: nothing is lost of attributes that are kept.
func TestCompactAttributes(t *testing.T) {
	for _, sec := range []int64{0, 1, 1_700_000_000, 1<<32 - 1} {
		a := nfsclient.Attr{Type: nfsclient.CharDevice, Mode: 0o4711, Nlink: 1, UID: 2, GID: 3, Size: 4, Used: 5,
			Rdev: nfsclient.Device{Major: 6, Minor: 7}, FSID: 8, FileID: 9,
			Atime: time.Unix(sec, 999_999_999), Mtime: time.Unix(sec, 1), Ctime: time.Unix(sec, 0), Change: nfsclient.ChangeByTimes(4, time.Unix(sec, 1), time.Unix(sec, 0))}
		kept := compact(&a)
		if got := kept.Full(a.Type); got != a {
			t.Errorf("%+v became %+v", a, got)
		}
	}
}
