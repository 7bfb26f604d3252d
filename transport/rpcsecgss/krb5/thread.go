package krb5

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// onOwnThread runs f on a thread that ends with it: what f changes of the thread, its
// keyring or its user, concerns nothing else. The runtime starts no thread from one that
// is locked to a goroutine, so that none inherits it.
func onOwnThread(f func()) {
	done := make(chan struct{})
	go runThread(f, done)
	<-done
}

func runThread(f func(), done chan<- struct{}) {
	runtime.LockOSThread() // for good
	defer close(done)
	f()
}

// asUser runs f on a thread whose effective user is uid, which root can be. The real and
// the saved user stay root, so that this user may not send the thread a signal.
func asUser(uid uint32, f func() error) (err error) {
	onOwnThread(func() {
		// The kernel makes a process that changes its user one that writes no core.
		dumpable, _ := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		if err = setEffectiveUser(uid); err != nil {
			return
		}
		err = f()
		if back := setEffectiveUser(0); err == nil {
			err = back
		}
		if dumpable == 1 {
			_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
		}
	})
	return err
}

// setEffectiveUser changes that of this thread alone, unlike unix.Setresuid.
func setEffectiveUser(uid uint32) error {
	const same = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same); errno != 0 {
		return fmt.Errorf("to be user %d for a moment: %w", uid, errno)
	}
	return nil
}
