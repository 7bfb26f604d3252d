package callback

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	rpcbindwire "github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/nfsclient/rpcbind"
)

// note is the file that names the registrations of this user's processes, locked
// (flock) as long as one of them serves callbacks: rpcbind keeps what a process that
// was killed has registered.
type note struct{ f *os.File }

// maxNote is more than four registrations need, in bytes.
const maxNote = 4 << 10

// openNote locks the file at a path. It fails with ErrTaken if another process has it.
func openNote(path string) (*note, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrTaken
		}
		return nil, errors.Join(err, f.Close())
	}
	return &note{f}, nil
}

// left is what a process that is gone has registered. What cannot be read is nothing.
func (n *note) left() (all []rpcbindwire.Rpcb) {
	b, err := io.ReadAll(io.NewSectionReader(n.f, 0, maxNote))
	if err != nil || json.Unmarshal(b, &all) != nil {
		return nil
	}
	return all
}

func (n *note) write(all []rpcbindwire.Rpcb) error {
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := n.f.Truncate(0); err != nil {
		return err
	}
	_, err = n.f.WriteAt(b, 0)
	return err
}

// close gives the file up; n may be nil. What it names stays where it was not
// unregistered.
func (n *note) close() error {
	if n == nil {
		return nil
	}
	return n.f.Close()
}

// sweep unregisters what a process that is gone has left, and returns what is
// registered then.
func (n *note) sweep(c *rpcbind.Conn, there []rpcbindwire.Rpcb) ([]rpcbindwire.Rpcb, error) {
	for _, e := range n.left() {
		at := slices.IndexFunc(there, func(o rpcbindwire.Rpcb) bool { return same(o, e) })
		if at < 0 {
			continue
		}
		gone, err := c.Unset(there[at])
		if err != nil {
			return nil, err
		}
		if gone {
			there = slices.Delete(there, at, at+1)
		}
	}
	return there, nil
}

// same reports whether two registrations are one; rpcbind decides whose it is.
func same(a, b rpcbindwire.Rpcb) bool {
	return a.Program == b.Program && a.Version == b.Version && a.NetID == b.NetID && a.Addr == b.Addr
}
