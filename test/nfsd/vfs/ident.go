package vfs

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Cred is the user on whose behalf an operation is made.
type Cred struct {
	UID, GID uint32
	GIDs     []uint32
}

// identity is the state of a thread that acts for someone; the zero one acts
// as the server itself.
type identity struct{ groups, active bool }

// can reports whether this process may act for others: it is root, and a change
// of the file system user takes effect.
func canAssume() bool {
	if os.Geteuid() != 0 {
		return false
	}
	id, err := assume(&Cred{UID: 65534, GID: 65534})
	if err != nil {
		return false
	}
	id.drop()
	return true
}

// as makes the calling goroutine's thread act for c until drop, where the
// process may; otherwise everything is done as the server's own user.
func (t *Tree) as(c *Cred) (identity, error) {
	if !t.priv || c.UID == 0 && c.GID == 0 && len(c.GIDs) == 0 {
		return identity{}, nil
	}
	return assume(c)
}

// assume sets the thread's file system ids and supplementary groups by bare
// system calls, which, unlike those of package syscall, change one thread only.
// With another user than 0 the kernel takes away the capabilities that override
// permissions. The thread is locked, so no other goroutine sees it so.
func assume(c *Cred) (identity, error) {
	runtime.LockOSThread()
	id := identity{active: true, groups: len(c.GIDs) > 0 || ownGroups}
	if id.groups {
		if err := setGroups(c.GIDs); err != nil {
			runtime.UnlockOSThread()
			return identity{}, err
		}
	}
	if !setFSID(unix.SYS_SETFSGID, c.GID) || !setFSID(unix.SYS_SETFSUID, c.UID) {
		id.drop()
		return identity{}, unix.EPERM
	}
	return id, nil
}

// drop makes the thread the server's own again.
func (id identity) drop() {
	if !id.active {
		return
	}
	ok := setFSID(unix.SYS_SETFSUID, 0) && setFSID(unix.SYS_SETFSGID, 0)
	if id.groups && setGroups(own) != nil {
		ok = false
	}
	if !ok {
		// Going on with a stranger's rights, or leaving such a thread to the
		// scheduler, would be worse.
		panic("vfs: cannot take back the server's own identity")
	}
	runtime.UnlockOSThread()
}

// setFSID sets a file system id and reports whether that worked: the calls report no
// failure, but an impossible id changes nothing and returns the one in force.
func setFSID(trap uintptr, id uint32) bool {
	unix.RawSyscall(trap, uintptr(id), 0, 0)
	now, _, _ := unix.RawSyscall(trap, uintptr(^uint32(0)), 0, 0)
	return uint32(now) == id
}

func setGroups(g []uint32) error {
	var p unsafe.Pointer
	if len(g) > 0 {
		p = unsafe.Pointer(&g[0])
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(g)), uintptr(p), 0); e != 0 {
		return fmt.Errorf("set groups: %w", e)
	}
	return nil
}

// own is the process's supplementary groups at its start.
var own = func() []uint32 {
	g, err := os.Getgroups()
	if err != nil {
		return nil
	}
	o := make([]uint32, len(g))
	for i, v := range g {
		o[i] = uint32(v)
	}
	return o
}()

var ownGroups = len(own) > 0
