package main

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// pollMountTable waits until the mount table that f reads changes, or for d.
func pollMountTable(f *os.File, d time.Duration) error {
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLPRI}}
	_, err := unix.Poll(fds, int(d.Milliseconds()))
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	return err
}
