package v4

import (
	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/state"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
)

// opening is what the file side of an OPEN has found or made.
type opening struct {
	file object
	st   vfs.Stat
	made bool
	// size is set if a file that was there is to be cut to it once it is open.
	truncate bool
	size     uint64
}

// open is OPEN (RFC 8881 section 18.16).
func (c *call) open(a *wire.Open) wire.Status {
	switch a.Claim {
	case wire.ClaimDelegatePrev, wire.ClaimDelegPrevFH:
		return nfsclient.ErrNotSupp
	case wire.ClaimDelegateCur, wire.ClaimDelegCurFH:
		if st := c.stateid(&a.DelegStateid); st != wire.OK {
			return st
		}
	}
	if a.Create && a.Claim != wire.ClaimNull {
		return nfsclient.ErrInval
	}
	if st := c.s.cfg.State.CheckOpen(c.ses, a); st != wire.OK {
		return st
	}
	var f opening
	var st wire.Status
	switch {
	case a.Claim == wire.ClaimFH || a.Claim == wire.ClaimPrevious || a.Claim == wire.ClaimDelegCurFH:
		st = c.openCurrent(&f)
	case a.Create:
		st = c.openCreate(a, &f)
	default:
		st = c.openName(a, &f)
	}
	if st != wire.OK {
		return st
	}
	return c.opened(a, &f)
}

// kindToOpen is the status for a file that is not a regular one.
func kindToOpen(o object) wire.Status {
	switch {
	case o.dir != nil || o.node != nil && o.node.IsDir():
		return nfsclient.ErrIsDir
	case o.gone != "":
		return nfsclient.ErrStale
	case o.node.IsSymlink():
		return wire.ErrSymlink
	case !o.node.IsRegular():
		return wire.ErrWrongType
	}
	return wire.OK
}

// openCurrent is of the claims by filehandle.
func (c *call) openCurrent(f *opening) wire.Status {
	f.file = c.cur
	if st := kindToOpen(f.file); st != wire.OK {
		return st
	}
	return statusOf(f.file.ex.Tree.Stat(f.file.node, &f.st))
}

// openName is of a file that is there.
func (c *call) openName(a *wire.Open, f *opening) wire.Status {
	var before vfs.Stat
	dir := c.cur
	if dir.node != nil && dir.node.IsDir() {
		if err := dir.ex.Tree.Stat(dir.node, &before); err != nil {
			return statusOf(err)
		}
	}
	o, st := c.child(a.Name)
	if st != wire.OK {
		return st
	}
	if st := kindToOpen(o); st != wire.OK {
		return st
	}
	f.file = o
	a.Change = changeInfo(&vfs.Change{Before: before, After: before})
	return statusOf(o.ex.Tree.Stat(o.node, &f.st))
}

// openCreate is of a file that is made if it is not there.
func (c *call) openCreate(a *wire.Open, f *opening) wire.Status {
	dir := c.cur
	if st := c.directory(dir); st != wire.OK {
		return st
	}
	if st := checkName(a.Name); st != wire.OK {
		return st
	}
	if a.Mode == wire.Exclusive1 && !a.Attrs.Mask.Without(exclusive).Empty() {
		return nfsclient.ErrInval
	}
	if a.Mode == wire.Exclusive {
		a.Attrs = wire.Attrs{}
	}
	set, st := c.toSet(dir.ex, dir.node, &a.Attrs)
	if st != wire.OK {
		return st
	}
	cr := c.cred(dir.ex)
	if a.Mode == wire.Exclusive || a.Mode == wire.Exclusive1 {
		return c.createExclusive(a, dir, &cr, &set, f)
	}
	// A name may come and go between the two looks at it.
	for range 16 {
		if a.Mode == wire.Unchecked {
			st := c.openName(a, f)
			if st == wire.OK && set.Set&vfs.SetSize != 0 {
				// Of an existing file only the size is set, as open with O_TRUNC would.
				f.truncate, f.size = true, set.Size
				a.AttrSet = wire.BitmapOf(wire.AttrSize)
			}
			if st != nfsclient.ErrNoEnt {
				return st
			}
		}
		var ch vfs.Change
		n, err := dir.ex.Tree.Create(&cr, dir.node, a.Name, vfs.Guarded, &set, [8]byte{}, &f.st, &ch)
		switch {
		case err == nil:
			f.file, f.made = c.own(dir.ex, n), true
			a.Change, a.AttrSet = changeInfo(&ch), a.Attrs.Mask
			return wire.OK
		case err != unix.EEXIST || a.Mode == wire.Guarded:
			return statusOf(err)
		}
	}
	return wire.ErrDelay
}

// createExclusive makes a file that is known again by its verifier, and gives it its attributes: if it was
// made before, once more, as the answer may have been lost before they were set.
func (c *call) createExclusive(a *wire.Open, dir object, cr *vfs.Cred, set *vfs.SetAttr, f *opening) wire.Status {
	var ch vfs.Change
	t := dir.ex.Tree
	n, err := t.Create(cr, dir.node, a.Name, vfs.Exclusive, &vfs.SetAttr{}, [8]byte(a.Verifier), &f.st, &ch)
	if err != nil {
		return statusOf(err)
	}
	f.file, f.made = c.own(dir.ex, n), true
	a.Change = changeInfo(&ch)
	// The times, which hold the verifier, are for the client to set.
	a.AttrSet = wire.BitmapOf(wire.AttrTimeAccess, wire.AttrTimeModify)
	if set.Set == 0 {
		return wire.OK
	}
	var inner vfs.Change
	rest := *set
	rest.Set &^= vfs.SetSize // a new file is empty; another size would change the time that holds the verifier
	if set.Set&vfs.SetSize != 0 && set.Size != 0 {
		return nfsclient.ErrInval
	}
	if rest.Set != 0 {
		if err := t.Setattr(cr, n, &rest, nil, &inner); err != nil {
			return statusOf(err)
		}
		f.st = inner.After
	}
	a.AttrSet = a.AttrSet.Or(a.Attrs.Mask)
	return wire.OK
}

// opened asks for the rights and the state, and does what is left when the file is open.
func (c *call) opened(a *wire.Open, f *opening) wire.Status {
	ex, n := f.file.ex, f.file.node
	cr := c.cred(ex)
	has, err := ex.Tree.Allowed(&cr, n, &f.st, vfs.MayRead|vfs.MayWrite|vfs.MayExec)
	if err != nil {
		return statusOf(err)
	}
	// Who has just made a file may use it whatever its mode, and who had it open before the server or
	// its client lost that may go on.
	if !f.made && (a.Claim == wire.ClaimNull || a.Claim == wire.ClaimFH) {
		// What may be executed may be read.
		if a.Access&wire.ShareRead != 0 && has&(vfs.MayRead|vfs.MayExec) == 0 || (a.Access&wire.ShareWrite != 0 || f.truncate) && has&vfs.MayWrite == 0 {
			return nfsclient.ErrAccess
		}
	}
	if a.Access&wire.ShareWrite != 0 && ex.Tree.ReadOnly() {
		return nfsclient.ErrReadOnly
	}
	o := state.Opening{File: f.file.handle(), Truncate: f.truncate, MayRead: has&vfs.MayRead != 0, MayWrite: has&vfs.MayWrite != 0,
		Change: f.st.ChangeID(), Size: f.st.Size}
	if st := c.s.cfg.State.Open(c.ses, a, o); st != wire.OK {
		return st
	}
	if f.truncate {
		var ch vfs.Change
		if err := ex.Tree.Setattr(&cr, n, &vfs.SetAttr{Set: vfs.SetSize, Size: f.size}, nil, &ch); err != nil {
			c.s.cfg.State.UndoOpen(c.ses, a)
			return statusOf(err)
		}
	}
	c.set(f.file)
	c.keep(a.Stateid)
	return wire.OK
}
