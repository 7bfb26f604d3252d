package mount

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/test/acls"
)

// TestACL: lists through a mount and at the server.
func TestACL(t *testing.T) {
	acls.Need(t)
	for _, w := range []struct{ name, proto, words string }{{"tcp", "tcp", ""}, {"rdma", "rdma", ""}, {"ring", "tcp", ",fuse=ring"}} {
		t.Run(w.name, func(t *testing.T) {
			s := startServer(t, serverOptions{acl: true})
			acls.Run(t, s.mount(t, w.proto, "actimeo=0"+w.words).Dir, s.export)
		})
	}
}

// TestACLRights: a list that is set through a mount decides at once there, whatever was
// cached of rights and modes, and the kernel shows the mode that comes with it.
func TestACLRights(t *testing.T) {
	acls.Need(t)
	s := startServer(t, serverOptions{mode: 0o755, acl: true})
	m := sharedMount(t, s, "rdma", "allow_other,actimeo=600")
	file := makeDir(t, filepath.Join(m.Dir, "dir"), 0o755)
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if reads(t, file) {
		t.Fatal("anybody may read a file of mode 0600")
	}
	list := acls.Users(65534, 4)
	for range 2 {
		if err := acls.Set(file, acls.Access, list); err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o670 {
			t.Errorf("%v, %v: the mask is not in the mode", st.Mode(), err)
		}
		if !reads(t, file) {
			t.Error("a user whom the list lets in may not read")
		}
		if err := unix.Removexattr(file, acls.Access); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
		if reads(t, file) {
			t.Error("a user reads whom the list does not let in any more")
		}
	}
	dir := filepath.Dir(file)
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if !reads(t, file) {
		t.Error("a file of mode 0644 is shut")
	}
	// The mode of the directory stays 0755, and shuts nobody out.
	shut := []nfsclient.ACE{{Tag: nfsclient.ACLUserObj, Perm: 7}, {Tag: nfsclient.ACLUser, ID: 65534}, {Tag: nfsclient.ACLGroupObj, Perm: 5},
		{Tag: nfsclient.ACLMask, Perm: 5}, {Tag: nfsclient.ACLOther, Perm: 5}}
	if err := acls.Set(dir, acls.Access, shut); err != nil {
		t.Fatal(err)
	}
	if reads(t, file) {
		t.Error("a user whom the directory's list shuts out reads below it")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with its user
		_, err := unix.SetfsuidRetUid(65534)
		if err == nil {
			err = acls.Set(dir, acls.Access, acls.Users(65534, 7))
		}
		done <- err
	}()
	if err := <-done; err != unix.EPERM {
		t.Errorf("a user who does not own a directory changes its list: %v", err)
	}
}
