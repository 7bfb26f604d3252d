package mount

import (
	"os"
	"testing"

	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/rights"
)

// TestRights4 is TestRights with version 4, where the server says with an opening what the user may do.
func TestRights4(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it acts as several users")
	}
	for _, c := range []struct {
		name, words string
		squash      bool
	}{
		{"no_root_squash", "allow_other", false},
		{"no_root_squash, default_permissions", "allow_other,default_permissions", false},
		{"root_squash", "allow_other", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startServer(t, serverOptions{versions: nfsd.V42, squashRoot: c.squash})
			rights.Run(t, rights.Config{
				Backing: s.export, Oracle: openDir(t), Mode: 0o755, Every: 3,
				As: func(u rights.User) rights.User {
					if c.squash && u.UID == 0 {
						return rights.Other
					}
					return u
				},
				Mount:  func() string { return sharedMount(t, s, "tcp", c.words+",vers=4.2").Dir },
				Kernel: c.words != "allow_other",
			})
		})
	}
}
