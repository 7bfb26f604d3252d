package mount

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestMountTable: what the mount table shows of a mount, made by mount(2) and
// by fusermount3.
func TestMountTable(t *testing.T) {
	s := startServer(t, serverOptions{mode: 0o1777})
	for _, c := range []struct {
		name, words, want string
		user              bool
	}{
		{"plain", "", "group_id=0,max_read=1048576,nodev,nosuid,relatime,rw,user_id=0", false},
		{"flags", "ro,noexec,noatime,allow_other", "allow_other,group_id=0,max_read=1048576,noatime,nodev,noexec,nosuid,ro,user_id=0", false},
		{"cleared", "suid,dev,relatime", "group_id=0,max_read=1048576,relatime,rw,user_id=0", false},
		{"user", "", "group_id=65534,max_read=1048576,nodev,nosuid,relatime,rw,user_id=65534", true},
		{"user's flags", "ro,noexec,noatime", "group_id=65534,max_read=1048576,noatime,nodev,noexec,nosuid,ro,user_id=65534", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Words: s.words("tcp", c.words)}
			if os.Geteuid() != 0 {
				t.Skip("only root can be both users")
			}
			if c.user {
				o.Wrapper, o.Dir = asUser(t), userDir(t)
			}
			m := Mount(t, s.source(), o)
			b, err := os.ReadFile("/proc/self/mounts")
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for line := range strings.Lines(string(b)) {
				w := strings.Fields(line)
				if w[1] != m.Dir {
					continue
				}
				found = true
				got := strings.Split(w[3], ",")
				slices.Sort(got)
				if got := strings.Join(got, ","); w[0] != s.source() || w[2] != "fuse.rdmafs" || got != c.want {
					t.Errorf("%s %s %s, want %s fuse.rdmafs %s", w[0], w[2], got, s.source(), c.want)
				}
			}
			if !found {
				t.Error("not in the mount table")
			}
		})
	}
}
