package session

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/control"
)

// owner4 is what a server knows an NFSv4 client by (co_ownerid): a random name, since names of hosts are equal on
// cloned machines and in containers, and a server drops what it keeps of one client when another appears with its
// name. The name stays in a file of the runtime directory until a clean unmount: the daemon that mounts the same
// source at the same place after this one was killed finds it, and the server drops the openings and locks of the
// dead one at once instead of after its lease. The file is locked (flock) as long as its process lives, so that no
// two have one name: not one mounted on top of another, nor one beside a detached one that still lives.
type owner4 struct {
	id    []byte
	f     *os.File // nil if the name is not kept
	found bool     // it is that of a daemon that has ended
}

const (
	owner4Start = "rdmafs "
	// owner4Max bounds what is read of a file.
	owner4Max = 512
)

func newOwner4() *owner4 {
	return &owner4{id: []byte(owner4Start + machineName() + " " + rand.Text())}
}

// takeOwner4 finds or makes the name that is kept for the mount; without a mount point, or where it cannot be kept, it
// is one that nobody finds again.
func (s *Session) takeOwner4() *owner4 {
	if s.cfg.MountPoint == "" {
		return newOwner4()
	}
	dir, err := control.Directory()
	if err == nil {
		var o *owner4
		if o, err = openOwner4(dir, fmt.Sprintf("%s\x00%s\x00%s\x00%d", s.cfg.Source.Host, s.cfg.Source.Export, s.cfg.MountPoint, os.Geteuid())); err == nil {
			return o
		}
	}
	s.cfg.log().Info(fmt.Sprintf("should this process be killed, the server keeps its openings and locks for a lease time: %v", err))
	return newOwner4()
}

// openOwner4 takes the name that dir has for key, or makes it. If another process has it, this one gets a name that is
// not kept.
func openOwner4(dir, key string) (*owner4, error) {
	sum := sha256.Sum256([]byte(key))
	name := filepath.Join(dir, "nfs4-"+hex.EncodeToString(sum[:8])+".owner")
	for range 8 {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return newOwner4(), f.Close()
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		// The one before may have removed it in between.
		is, err := f.Stat()
		there, gone := os.Lstat(name)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if !is.Mode().IsRegular() {
			return nil, errors.Join(fmt.Errorf("%s is no regular file", name), f.Close())
		}
		if gone != nil || !os.SameFile(is, there) {
			if err := f.Close(); err != nil {
				return nil, err
			}
			continue
		}
		o := &owner4{f: f}
		if err := o.load(); err != nil {
			return nil, errors.Join(err, os.Remove(name), f.Close())
		}
		return o, nil
	}
	return nil, fmt.Errorf("%s: others make and remove it all the time", name)
}

// load reads the name, or writes a new one if there is none, or not all of one.
func (o *owner4) load() error {
	b, err := io.ReadAll(io.LimitReader(o.f, owner4Max))
	if err != nil {
		return err
	}
	if id, ok := strings.CutSuffix(string(b), "\n"); ok && strings.HasPrefix(id, owner4Start) && !strings.Contains(id, "\n") {
		o.id, o.found = []byte(id), true
		return nil
	}
	return o.renew()
}

// renew makes another name.
func (o *owner4) renew() error {
	o.id, o.found = newOwner4().id, false
	if o.f == nil {
		return nil
	}
	if err := o.f.Truncate(0); err != nil {
		return err
	}
	_, err := o.f.WriteAt(append(o.id, '\n'), 0)
	return err
}

// release ends the use of the name. clean: the server has nothing under it.
func (o *owner4) release(clean bool) error {
	if o == nil || o.f == nil {
		return nil
	}
	var err error
	if clean {
		err = os.Remove(o.f.Name())
		if errors.Is(err, os.ErrNotExist) { // a login manager removes /run/user/UID after the last logout
			err = nil
		}
	}
	return errors.Join(err, o.f.Close())
}
