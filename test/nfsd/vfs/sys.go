package vfs

import (
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Stat is a file's attributes as the kernel gives them.
type Stat struct {
	unix.Statx_t // first: system calls write it
	// Changes counts the changes made here of a file in use; see Change.
	Changes uint32
}

// statMask asks for what a handle or attributes are made of.
const statMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME | unix.STATX_MNT_ID

var emptyPath [1]byte

// statFD is statx of an open file. It allocates nothing, which unix.Statx
// would.
func statFD(fd int, st *Stat) error {
	_, _, e := unix.Syscall6(unix.SYS_STATX, uintptr(fd), uintptr(unsafe.Pointer(&emptyPath[0])),
		unix.AT_EMPTY_PATH, statMask, uintptr(unsafe.Pointer(st)), 0)
	if e != 0 {
		return e
	}
	return nil
}

// statAt is statx of a name, a symbolic link itself.
func statAt(dir int, name string, st *Stat) error {
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	return statAtC(dir, p, st)
}

// statAtC is statAt of a name that ends in a NUL.
func statAtC(dir int, name *byte, st *Stat) error {
	_, _, e := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(name)),
		unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, statMask, uintptr(unsafe.Pointer(st)), 0)
	if e != 0 {
		return e
	}
	return nil
}

// rawHandle is struct file_handle with room for the largest handle there is
// (MAX_HANDLE_SZ).
type rawHandle struct {
	n    uint32
	kind int32
	b    [128]byte
}

// handleAt is name_to_handle_at of a name that ends in a NUL; of an empty one,
// of the open file dir. It returns the mount as well.
func handleAt(dir int, name *byte, h *rawHandle) (mount int32, err error) {
	h.n = uint32(len(h.b))
	flags := uintptr(0)
	if *name == 0 {
		flags = unix.AT_EMPTY_PATH
	}
	_, _, e := unix.Syscall6(unix.SYS_NAME_TO_HANDLE_AT, uintptr(dir), uintptr(unsafe.Pointer(name)),
		uintptr(unsafe.Pointer(h)), uintptr(unsafe.Pointer(&mount)), flags, 0)
	if e != 0 {
		return 0, e
	}
	return mount, nil
}

// openHandle is open_by_handle_at on the file system of mount.
func openHandle(mount int, h *rawHandle, flags int) (int, error) {
	r, _, e := unix.Syscall(unix.SYS_OPEN_BY_HANDLE_AT, uintptr(mount), uintptr(unsafe.Pointer(h)), uintptr(flags))
	if e != 0 {
		return -1, e
	}
	return int(r), nil
}

// procPath names an open file such that it can be opened again with other
// flags, or linked.
func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// reopen opens an O_PATH descriptor's file.
func reopen(fd, flags int) (int, error) {
	for {
		n, err := unix.Open(procPath(fd), flags|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// chmodFD is chmod of an O_PATH descriptor's file.
func chmodFD(fd int, mode uint32) error {
	_, _, e := unix.Syscall6(unix.SYS_FCHMODAT2, uintptr(fd), uintptr(unsafe.Pointer(&emptyPath[0])),
		uintptr(mode), unix.AT_EMPTY_PATH, 0, 0)
	switch e {
	case 0:
		return nil
	case unix.ENOSYS: // before Linux 6.6
		return unix.Chmod(procPath(fd), mode)
	}
	return e
}

func closeFD(fd int) {
	if fd >= 0 {
		// Nothing can be done about a failed close; fsync reports lost writes.
		_ = unix.Close(fd)
	}
}

func fsync(fd int) error {
	for {
		if err := unix.Fsync(fd); err != unix.EINTR {
			return err
		}
	}
}

// readAll reads len(b) bytes from off or up to the end of the file.
func readAll(fd int, b []byte, off int64) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.Pread(fd, b[done:], off+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, err
		}
		if n == 0 {
			break
		}
		done += n
	}
	return done, nil
}

// writeAll writes b at off. When it fails after some bytes it returns those and
// no error: the next write will meet the fault again.
func writeAll(fd int, b []byte, off int64) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.Pwrite(fd, b[done:], off+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			if done > 0 {
				return done, nil
			}
			return 0, err
		}
		done += n
	}
	return done, nil
}

func isDir(st *Stat) bool     { return st.Mode&unix.S_IFMT == unix.S_IFDIR }
func isRegular(st *Stat) bool { return st.Mode&unix.S_IFMT == unix.S_IFREG }
