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
// other's changes what docs/semantics.md says.
func TestInsideVisible(t *testing.T) {
	const backing = "/export/visible"
	guest(t, here{}, "mkdir -m 1777 "+backing)
	const long, short = "actimeo=600", "actimeo=1"
	linux := func(words string) string {
		dir := t.TempDir()
		// Mounts that share no cache are as good as two machines.
		guest(t, here{}, fmt.Sprintf("mount -t nfs -o vers=3,proto=tcp,nosharecache,%s %s %s", words, source(), dir))
		t.Cleanup(func() { guest(t, here{}, "umount "+dir) })
		return filepath.Join(dir, "visible")
	}
	ours := func(words string) string {
		m := mount.Mount(t, source(), mount.Options{Words: insideWords("tcp") + "," + words, Dir: t.TempDir()})
		return filepath.Join(m.Dir, "visible")
	}
	got := visibility.Run(t, visibility.Config{Backing: backing, Clients: []visibility.Client{
		{Name: "Linux", A: linux(long), Long: linux(long), Short: linux(short)},
		{Name: "rdmafs", A: ours(long), Long: ours(long), Short: ours(short)},
	}})
	t.Logf("seen:\n%s", got)
	document, err := os.ReadFile(os.Getenv(documentEnv))
	if err != nil {
		t.Fatal(err)
	}
	want := visibility.Find(string(document), visibility.Heading)
	// When Linux's client looks anew is its own affair; it is shown above.
	when := []string{visibility.AtOnce, visibility.AtOpen, visibility.Expired}
	for i := 1; i < min(len(got), len(want)); i++ {
		for _, j := range []int{1, 3} { // Linux is B
			if j < min(len(got[i]), len(want[i])) && slices.Contains(when, got[i][j]) && slices.Contains(when, want[i][j]) {
				want[i][j] = got[i][j]
			}
		}
	}
	for _, d := range visibility.Differences(got, want) {
		t.Error(d)
	}
}
