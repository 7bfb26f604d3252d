package nlm

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
)

// journal notes the owners that may hold locks, for no server takes them back from a
// process that was killed. It is a file of slots of one size, locked (flock) as long as its
// process lives. A slot is written before the first LOCK of an owner in a file is
// sent, and blanked when the owner holds nothing there any more. The machine's own
// crash ends the file, in a runtime directory, with all else.
type journal struct {
	dir    string
	server string

	mu    sync.Mutex
	f     *os.File // nil until the first note
	slots []bool   // in use
	kept  bool
}

// note is a slot of the journal; 0 is none.
type note int

const (
	slotSize     = 1024
	maxSlots     = 1 << 16
	journalStart = "locks-"
	journalEnd   = ".journal"
)

// entry is what a slot holds, as JSON, padded with spaces.
type entry struct {
	Server string   `json:"server"`
	Caller string   `json:"caller"`
	Handle []byte   `json:"handle"`
	OH     []byte   `json:"oh"`
	SVID   int32    `json:"svid"`
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	GIDs   []uint32 `json:"gids,omitempty"`
}

func newJournal(dir string, server netip.Addr) *journal {
	return &journal{dir: dir, server: server.String()}
}

// add writes an entry.
func (j *journal) add(e entry) (note, error) {
	if j.dir == "" {
		return 0, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.f == nil {
		if err := j.create(); err != nil {
			return 0, err
		}
	}
	n := 0
	for n < len(j.slots) && j.slots[n] {
		n++
	}
	if n == maxSlots {
		return 0, errors.New("too many owners of locks")
	}
	e.Server = j.server
	e.GIDs = e.GIDs[:min(len(e.GIDs), 16)]
	b, err := json.Marshal(e)
	if err != nil {
		return 0, err
	}
	if len(b) >= slotSize {
		return 0, fmt.Errorf("entry of %d bytes", len(b))
	}
	if err := j.put(n, b); err != nil {
		return 0, err
	}
	if n == len(j.slots) {
		j.slots = append(j.slots, false)
	}
	j.slots[n] = true
	return note(n + 1), nil
}

// put writes a slot. mu is held.
func (j *journal) put(n int, b []byte) error {
	slot := bytes.Repeat([]byte{' '}, slotSize)
	copy(slot, b)
	slot[slotSize-1] = '\n'
	_, err := j.f.WriteAt(slot, int64(n)*slotSize)
	return err
}

// create makes the file, locked before it has a slot. mu is held.
func (j *journal) create() error {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	name := filepath.Join(j.dir, journalStart+hex.EncodeToString(b[:])+journalEnd)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return errors.Join(err, f.Close(), os.Remove(name))
	}
	j.f = f
	return nil
}

// remove blanks a slot.
func (j *journal) remove(n note) error {
	if n == 0 {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.slots[n-1] = false
	return j.put(int(n-1), nil)
}

// keep leaves the file behind at the end: the server may hold what it notes.
func (j *journal) keep() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.kept = true
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.f == nil {
		return nil
	}
	var err error
	if !j.kept {
		err = os.Remove(j.f.Name())
	}
	return errors.Join(err, j.f.Close())
}

// orphan is the journal of a process that is gone, locked by this one.
type orphan struct {
	f       *os.File
	entries []entry
}

// orphans are the journals that dead processes have left of this server. What cannot
// be read, or is none, is left alone.
func (j *journal) orphans() (found []*orphan) {
	if j.dir == "" {
		return nil
	}
	names, _ := os.ReadDir(j.dir) // of one that cannot be read, what was read
	for _, e := range names {
		if !strings.HasPrefix(e.Name(), journalStart) || !strings.HasSuffix(e.Name(), journalEnd) {
			continue
		}
		f, err := os.OpenFile(filepath.Join(j.dir, e.Name()), os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		o := &orphan{f: f}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || !o.read() || o.entries[0].Server != j.server {
			_ = f.Close() // its process lives, or it is another server's
			continue
		}
		found = append(found, o)
	}
	return found
}

// read fills entries in, and reports whether there are some.
func (o *orphan) read() bool {
	slot := make([]byte, slotSize)
	for n := range maxSlots {
		if _, err := o.f.ReadAt(slot, int64(n)*slotSize); err != nil && !errors.Is(err, io.EOF) {
			return false
		} else if err != nil {
			break
		}
		var e entry
		if b := bytes.TrimSpace(slot); len(b) == 0 || json.Unmarshal(b, &e) != nil || len(e.Handle) > wire.MaxHandle || len(e.OH) > wire.MaxNetObj {
			continue
		}
		o.entries = append(o.entries, e)
	}
	return len(o.entries) > 0
}

// write notes h before the first LOCK that is sent for it. The caller has the turn.
func (c *Client) write(h *holder) (err error) {
	if h.note != 0 {
		return nil
	}
	h.note, err = c.journal.add(entry{Caller: c.cf.MachineName, Handle: []byte(h.handle), OH: []byte(h.id.oh), SVID: h.id.svid,
		UID: h.cred.UID, GID: h.cred.GID, GIDs: h.cred.GIDs})
	if err != nil {
		return fmt.Errorf("journal of locks: %w", err)
	}
	return nil
}

// runSweep gives back what processes held that were killed. What they waited for may yet
// be granted, which callbacks then deny.
func (c *Client) runSweep(left []*orphan) {
	c.attend()
	for _, o := range left {
		n := 0
		for _, e := range o.entries {
			if !c.sweep(&e) {
				break
			}
			n++
		}
		if n == len(o.entries) {
			c.cf.Log.Info(fmt.Sprintf("locks on %s: gave back those of %d owners of a process that was killed", c.cf.Host, n))
			if err := os.Remove(o.f.Name()); err != nil {
				c.cf.Log.Warn(fmt.Sprintf("locks on %s: journal of a process that was killed: %v", c.cf.Host, err))
			}
		}
		_ = o.f.Close() // only read
	}
}

// sweep gives back what one owner held, and reports whether the server has answered.
func (c *Client) sweep(e *entry) bool {
	for {
		args := wire.UnlockArgs{Cookie: cookie(), Lock: wire.Lock{Caller: e.Caller, Handle: nfsclient.Handle(e.Handle), OH: string(e.OH), SVID: e.SVID}}
		var res wire.Res
		err := c.once(c.ending, nfsclient.Cred{UID: e.UID, GID: e.GID, GIDs: e.GIDs}, wire.ProcUnlock, &args, &res, wire.ResReplyMax)
		switch {
		case c.ending.Err() != nil:
			return false
		case err == nil && res.Stat != wire.DeniedGracePeriod:
			return true // of a file that is gone nothing is held
		}
		_ = nfsclient.Pause(c.ending, c.cf.gracePause) // its end is seen above
	}
}
