package vfs

import (
	"golang.org/x/sys/unix"
)

// Rights, as of access(2).
const (
	MayRead  = unix.R_OK
	MayWrite = unix.W_OK
	MayExec  = unix.X_OK
)

// verdict is what the kernel said of a user's rights to a file whose status had
// last changed at ctime.
type verdict struct {
	cred  Cred
	ctime unix.StatxTimestamp
	known uint32
	has   uint32
}

func (v *verdict) holds(c *Cred, ctime unix.StatxTimestamp) bool {
	if v.cred.UID != c.UID || v.cred.GID != c.GID || v.ctime != ctime || len(v.cred.GIDs) != len(c.GIDs) {
		return false
	}
	for i, g := range c.GIDs {
		if v.cred.GIDs[i] != g {
			return false
		}
	}
	return true
}

// Allowed tells which of the rights in want c has to n, as the kernel judges
// them, access control lists included. st is n's attributes just now.
func (t *Tree) Allowed(c *Cred, n *Node, st *Stat, want uint32) (uint32, error) {
	var has, known uint32
	if v := n.access.Load(); v != nil && v.holds(c, st.Ctime) {
		has, known = v.has, v.known
	}
	if ask := want &^ known; ask != 0 {
		got, err := t.ask(c, n, ask)
		if err != nil {
			return 0, err
		}
		has, known = has|got, known|ask
		n.access.Store(&verdict{
			cred:  Cred{UID: c.UID, GID: c.GID, GIDs: append([]uint32(nil), c.GIDs...)},
			ctime: st.Ctime, known: known, has: has,
		})
	}
	if t.cfg.ReadOnly && !isSpecial(n.kind) {
		has &^= MayWrite
	}
	return has & want, nil
}

func isSpecial(kind uint16) bool {
	return kind == unix.S_IFCHR || kind == unix.S_IFBLK || kind == unix.S_IFIFO || kind == unix.S_IFSOCK
}

func (t *Tree) ask(c *Cred, n *Node, want uint32) (has uint32, err error) {
	id, err := t.as(c)
	if err != nil {
		return 0, err
	}
	defer id.drop()
	for bit := uint32(1); bit <= MayRead; bit <<= 1 {
		if want&bit == 0 {
			continue
		}
		switch err := unix.Faccessat2(n.fd, "", bit, unix.AT_EMPTY_PATH|unix.AT_EACCESS); err {
		case nil:
			has |= bit
		case unix.EACCES, unix.EROFS, unix.EPERM, unix.ETXTBSY:
		default:
			return 0, err
		}
	}
	return has, nil
}

// mayIO reports whether c may read or write n. The owner always may: the client
// checked when the file was opened, and the mode may have changed since. What
// may be executed may be read.
func (t *Tree) mayIO(c *Cred, n *Node, st *Stat, want uint32) error {
	if !t.priv || c.UID == 0 || c.UID == st.Uid {
		return nil
	}
	ask := want
	if want == MayRead {
		ask |= MayExec
	}
	has, err := t.Allowed(c, n, st, ask)
	if err == nil && has == 0 {
		err = unix.EACCES
	}
	return err
}
