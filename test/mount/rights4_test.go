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
	for _, words := range []string{"allow_other", "allow_other,default_permissions"} {
		t.Run(words, func(t *testing.T) {
			s := startServer(t, serverOptions{versions: nfsd.V42})
			rights.Run(t, rights.Config{
				Backing: s.export, Oracle: openDir(t), Mode: 0o755, As: func(u rights.User) rights.User { return u },
				Mount:  func() string { return sharedMount(t, s, "tcp", words+",vers=4.2").Dir },
				Kernel: words != "allow_other", Every: 3,
			})
		})
	}
}
