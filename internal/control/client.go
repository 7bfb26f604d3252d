package control

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// ErrNoDaemon: nobody answers for a mount point.
var ErrNoDaemon = errors.New("no rdmafs daemon of yours answers for this mount point")

// ErrEnded: the mount has ended before it was synced. Its end wrote everything,
// or reported to the clients that waited for it what could not be written.
var ErrEnded = errors.New("the mount has ended meanwhile")

// Held is a connection that the daemon of a mount holds until it has ended, or
// has done what takes long.
type Held struct {
	conn  net.Conn
	lines *bufio.Reader
	at    address
}

// Wait has the daemon of the mount with a device number, at a mount point, hold a
// connection until it ends. device may be "": any mount. A daemon that ends before
// it says so counts as none: it may have ended without seeing the request, and
// then what went wrong with its data is reported to other clients, or logged.
func Wait(mountPoint, device string) (*Held, error) {
	return holdAt(addressesOf(mountPoint), request("wait", device))
}

// Sync has the daemon of the mount with a device number make everything written
// safe on the server. failed is what it says went wrong, "" if nothing. Sync waits
// for the server as long as the daemon does.
func Sync(mountPoint, device string) (failed string, err error) {
	return longAt(addressesOf(mountPoint), request("sync", device))
}

// Stats has the daemon of the mount that is at a mount point now report on it, in
// JSON.
func Stats(mountPoint string) ([]byte, error) {
	return askAt(addressesOf(mountPoint), request("stats", deviceAt(mountPoint)))
}

// StatsWithin is Stats, bounded in time: for those who ask many daemons, any of which may be stuck.
func StatsWithin(mountPoint string, within time.Duration) ([]byte, error) {
	return askWithin(addressesOf(mountPoint), request("stats", deviceAt(mountPoint)), within)
}

// Used has the daemon of the mount that is at a mount point now report, in JSON, what
// processes ask of files, and count that from now on.
func Used(mountPoint string, within time.Duration) ([]byte, error) {
	return askWithin(addressesOf(mountPoint), request("used", deviceAt(mountPoint)), within)
}

// SetLog has the daemon of the mount that is at a mount point now log from a level up. failed is what it says went
// wrong, "" if nothing.
func SetLog(mountPoint, level string) (failed string, err error) {
	b, err := askAt(addressesOf(mountPoint), request(logPrefix+level, deviceAt(mountPoint)))
	if said := strings.TrimSpace(string(b)); err == nil && said != ok {
		return said, nil
	}
	return "", err
}

// Abort has the daemon of the mount that is at a mount point now fail what waits
// for the server.
func Abort(mountPoint string) error {
	_, err := askAt(addressesOf(mountPoint), request("abort", deviceAt(mountPoint)))
	return err
}

func request(word, device string) string {
	if device == "" {
		return word
	}
	return word + " " + device
}

// deviceAt is the device number of the mount at a mount point, "" if none is
// there.
func deviceAt(mountPoint string) string {
	if m, ok, err := mounttable.Find(mountPoint); ok && err == nil {
		return m.Device
	}
	return ""
}

func holdAt(at []address, request string) (*Held, error) {
	for _, a := range at {
		conn, pid, err := dial(a, request)
		if err != nil {
			continue
		}
		w := &Held{conn, bufio.NewReader(io.LimitReader(conn, maxAnswer)), a}
		line, err := w.lines.ReadString('\n')
		if err == nil && line == waiting+"\n" {
			return w, conn.SetDeadline(time.Time{})
		}
		conn.Close()
		if stuck(err) {
			return nil, &StuckError{pid}
		}
	}
	return nil, ErrNoDaemon
}

// Close lets the daemon go on without this client.
func (w *Held) Close() error { return w.conn.Close() }

// PID is the daemon's process; 0 when the kernel does not say.
func (w *Held) PID() int32 {
	pid, _ := peer(w.conn)
	return pid
}

// EndWithin bounds the next End; 0 means no bound.
func (w *Held) EndWithin(d time.Duration) {
	var at time.Time
	if d > 0 {
		at = time.Now().Add(d)
	}
	_ = w.conn.SetReadDeadline(at)
}

// End returns when the daemon has ended, or done what was asked, with what it
// says of it. It is a *StuckError when the time of EndWithin is over.
func (w *Held) End() (string, error) {
	line, err := w.lines.ReadString('\n')
	if stuck(err) {
		return "", &StuckError{w.PID()}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return strings.TrimSpace(line), err
}

// Remount has the daemon of the mount with a device number change it by a list of options. failed
// is why it did not, "" if it did.
func Remount(mountPoint, device, list string) (failed string, err error) {
	if len(list) > maxOptions || strings.ContainsAny(list, "\n\r") {
		return "", fmt.Errorf("the options are more than %d bytes, or contain the end of a line", maxOptions)
	}
	return longAt(addressesOf(mountPoint), request("remount", device)+" "+list)
}

// Sync is Sync by the daemon that holds w.
func (w *Held) Sync(device string) (failed string, err error) {
	return longAt([]address{w.at}, request("sync", device))
}

// longAt asks for what takes long.
func longAt(at []address, request string) (failed string, err error) {
	daemon, err := holdAt(at, request)
	if err != nil {
		return "", err
	}
	defer daemon.Close()
	said, err := daemon.End()
	switch {
	case err != nil:
		return "", err
	case said == "":
		return "", ErrEnded
	case said != done:
		return said, nil
	}
	return "", nil
}

func askAt(at []address, request string) ([]byte, error) {
	return askWithin(at, request, AnswerTimeout)
}

func askWithin(at []address, request string, within time.Duration) ([]byte, error) {
	for _, a := range at {
		conn, pid, err := dialWithin(a, request, within)
		if err != nil {
			continue
		}
		b, err := io.ReadAll(io.LimitReader(conn, maxAnswer+1))
		conn.Close()
		switch {
		case stuck(err):
			return nil, &StuckError{pid}
		case len(b) > maxAnswer:
			return nil, fmt.Errorf("process %d, user %d, answers with more than %d bytes: it is no rdmafs daemon", pid, a.uid, maxAnswer)
		case err != nil || len(b) > 0:
			return b, err
		}
	}
	return nil, ErrNoDaemon
}

// StuckError is a daemon that is there and does not answer.
type StuckError struct{ PID int32 }

func (e *StuckError) Error() string {
	return fmt.Sprintf("the mount's daemon, process %d, does not answer: it is stopped or stuck", e.PID)
}

// Ends waits for the end of the daemon, and reports whether it has ended in time.
func (e *StuckError) Ends(in time.Duration) bool {
	fd, err := unix.PidfdOpen(int(e.PID), 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	end := time.Now().Add(in)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(max(time.Until(end), 0).Milliseconds()))
		if err != unix.EINTR {
			return n == 1
		}
	}
}

func stuck(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
