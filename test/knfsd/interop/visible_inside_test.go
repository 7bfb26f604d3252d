//go:build guest

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rdmafs/rdmafs/test/mount"
	"github.com/rdmafs/rdmafs/test/visibility"
)

// TestInsideVisible: rdmafs and the Linux client, side by side on one export, see of each
// other's changes what docs/semantics.md says, with each version.
func TestInsideVisible(t *testing.T) {
	for _, v := range []struct{ vers, heading string }{{"3", visibility.Heading}, {"4.2", visibility.Heading4}} {
		t.Run(v.vers, func(t *testing.T) { visible(t, v.vers, v.heading) })
	}
}

func visible(t *testing.T, vers, heading string) {
	backing := "/export/visible" + vers
	guest(t, here{}, "mkdir -m 1777 "+backing)
	const long, short = "actimeo=600", "actimeo=1"
	linux := func(words string) string {
		dir := t.TempDir()
		// Mounts that share no cache are as good as two machines.
		guest(t, here{}, fmt.Sprintf("mount -t nfs -o vers=%s,proto=tcp,nosharecache,%s %s %s", vers, words, source(), dir))
		t.Cleanup(func() { guest(t, here{}, "umount "+dir) })
		return filepath.Join(dir, filepath.Base(backing))
	}
	ours := func(words string) string {
		m := mount.Mount(t, source(), mount.Options{Words: insideWords("tcp") + ",vers=" + vers + "," + words, Dir: t.TempDir()})
		return filepath.Join(m.Dir, filepath.Base(backing))
	}
	got := visibility.Run(t, visibility.Config{Heading: heading, Backing: backing, Clients: []visibility.Client{
		{Name: "Linux", A: linux(long), Long: linux(long), Short: linux(short), One: vers != "3"},
		{Name: "rdmafs", A: ours(long), Long: ours(long), Short: ours(short)},
	}})
	t.Logf("seen:\n%s", got)
	document, err := os.ReadFile(os.Getenv(documentEnv))
	if err != nil {
		t.Fatal(err)
	}
	want, without := visibility.Find(string(document), heading), visibility.Find(string(document), visibility.Heading)
	when := []string{visibility.AtOnce, visibility.AtOpen, visibility.Expired}
	for i := 1; i < min(len(got), len(want)); i++ {
		for j := 1; j < min(len(got[i]), len(want[i])); j++ {
			linux := j == 1 || j == 3 // is B
			switch g, w := got[i][j], want[i][j]; {
			case linux && slices.Contains(when, g) && slices.Contains(when, w):
				want[i][j] = g // when Linux's client looks anew is its own affair; it is shown above
			case vers != "3" && slices.Contains(when, g) && !visibility.Sooner(without[i][j], g):
				want[i][j] = g // a server gives delegations when it likes; without one version 4 is as version 3
			}
		}
	}
	for _, d := range visibility.Differences(got, want) {
		t.Error(d)
	}
}
