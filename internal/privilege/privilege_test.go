package privilege

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// childEnv has this program print what it may do, and end.
const childEnv = "RDMAFS_TEST_PRIVILEGE"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		fmt.Printf("mount %v, bind %v, lock %v, helper %v", MayMount(), MayBindReserved(), MayLockMemory(), HelperObstacle() == "")
		return
	}
	os.Exit(m.Run())
}

// TestUserNamespace: every capability in a user namespace is none over namespaces
// that others have made.
func TestUserNamespace(t *testing.T) {
	for _, c := range []struct {
		also uintptr
		want string
	}{
		{0, "mount false, bind false, lock false, helper false"},
		{unix.CLONE_NEWNS, "mount true, bind false, lock false, helper true"},
		{unix.CLONE_NEWNS | unix.CLONE_NEWNET, "mount true, bind true, lock false, helper true"},
	} {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self)
		cmd.Env = []string{childEnv + "=1"}
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | c.also,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Skipf("no user namespace can be made here: %v %s", err, out)
		}
		if string(out) != c.want {
			t.Errorf("with namespaces %#x: %s, want %s", c.also, out, c.want)
		}
	}
}
