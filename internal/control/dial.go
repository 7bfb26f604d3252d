package control

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// address is a control socket, and the user that must be listening there.
type address struct {
	path string
	uid  uint32
}

// sockets are those in dir of the mounts on a mount point, the upper one, which
// is the newest, first.
func sockets(at place, mountPoint string) (found []address) {
	stem := strings.TrimSuffix(socketName(mountPoint), ".sock")
	names, _ := os.ReadDir(at.dir)
	made := make(map[string]time.Time)
	for _, e := range names {
		if !strings.HasPrefix(e.Name(), stem) || e.Type() != os.ModeSocket {
			continue
		}
		path := filepath.Join(at.dir, e.Name())
		if st, err := os.Lstat(path); err == nil {
			made[path] = st.ModTime()
			found = append(found, address{path, at.uid})
		}
	}
	slices.SortFunc(found, func(a, b address) int { return made[b.path].Compare(made[a.path]) })
	return found
}

// dial reaches the daemon that listens at a, process pid, and sends it a
// request. It allows AnswerTimeout for the answer.
func dial(a address, request string) (_ net.Conn, pid int32, _ error) {
	return dialWithin(a, request, AnswerTimeout)
}

// dialWithin is dial with another time for the answer.
func dialWithin(a address, request string, within time.Duration) (_ net.Conn, pid int32, _ error) {
	conn, err := net.Dial("unix", a.path)
	if err != nil {
		return nil, 0, err
	}
	pid, uid := peer(conn)
	if uid != a.uid {
		conn.Close()
		return nil, 0, fmt.Errorf("%s: user %d listens there, not %d", a.path, uid, a.uid)
	}
	_ = conn.SetDeadline(time.Now().Add(within))
	if _, err := io.WriteString(conn, request+"\n"); err != nil {
		conn.Close()
		return nil, 0, err
	}
	return conn, pid, nil
}

// addressesOf are where a daemon of this mount point may answer.
func addressesOf(mountPoint string) (all []address) {
	for _, at := range places(mountPoint) {
		all = append(all, sockets(at, mountPoint)...)
	}
	return all
}

// unknownUser is the user of a peer of which the kernel does not say: no user has
// this number (chown(2)).
const unknownUser = ^uint32(0)

// peer is the process that listens where conn was made to, and its user. The
// kernel has them from listen(2).
func peer(conn net.Conn) (pid int32, uid uint32) {
	uid = unknownUser
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, uid
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, uid
	}
	_ = raw.Control(func(fd uintptr) {
		if cr, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid, uid = cr.Pid, cr.Uid
		}
	})
	return pid, uid
}
