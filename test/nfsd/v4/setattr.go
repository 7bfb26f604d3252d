package v4

import (
	"strconv"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/state"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

const (
	readData  = state.Read
	writeData = state.Write
)

// encoded is the results of a GETATTR.
func encoded(g *wire.GetAttr) []byte {
	var w xdr.Writer
	g.AppendRes(&w, wire.OK)
	return w.Bytes()
}

// conflict recalls what others have been delegated of a file that is about to be changed or read other
// than by READ and WRITE.
func (c *call) conflict(o object, want state.Access) wire.Status {
	if o.node == nil || !o.node.IsRegular() {
		return wire.OK
	}
	return c.s.cfg.State.Conflict(c.ses, o.handle(), want)
}

// toSet makes an order to vfs of the attributes that a client sets. dir is where the file is made, nil
// if it is there already.
func (c *call) toSet(ex *Export, dir *vfs.Node, a *wire.Attrs) (s vfs.SetAttr, st wire.Status) {
	switch {
	case a.Err != nil || !a.Mask.Without(supported(c.comp.Minor)).Empty():
		return s, wire.ErrAttrNotSupp
	case !a.Mask.Without(settable).Empty():
		return s, nfsclient.ErrInval
	case a.Has(wire.AttrMode) && a.Has(wire.AttrModeUmask), a.Has(wire.AttrModeUmask) && dir == nil:
		return s, nfsclient.ErrInval // RFC 8275 section 5
	}
	if a.Has(wire.AttrMode) {
		s.Set, s.Mode = s.Set|vfs.SetMode, a.Mode&0o7777
	}
	if a.Has(wire.AttrModeUmask) {
		s.Set, s.Mode = s.Set|vfs.SetMode, a.ModeUmask.Mode&0o7777
		if !ex.Tree.Inherits(dir) {
			s.Mode &^= a.ModeUmask.Umask
		}
	}
	if a.Has(wire.AttrOwner) {
		if s.UID, st = number(a.Owner); st != wire.OK {
			return s, st
		}
		s.Set |= vfs.SetUID
	}
	if a.Has(wire.AttrOwnerGroup) {
		if s.GID, st = number(a.OwnerGroup); st != wire.OK {
			return s, st
		}
		s.Set |= vfs.SetGID
	}
	if a.Has(wire.AttrSize) {
		s.Set, s.Size = s.Set|vfs.SetSize, a.Size
	}
	if a.Has(wire.AttrTimeAccessSet) {
		if s.Atime, st = ex.newTime(&a.TimeAccessSet); st != wire.OK {
			return s, st
		}
	}
	if a.Has(wire.AttrTimeModifySet) {
		s.Mtime, st = ex.newTime(&a.TimeModifySet)
	}
	return s, st
}

// number is the user or group that a string names: only decimal numbers are known here.
func number(s string) (uint32, wire.Status) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || len(s) > 1 && s[0] == '0' || s[0] == '+' {
		return 0, wire.ErrBadOwner
	}
	return uint32(n), wire.OK
}

func (e *Export) newTime(t *wire.SetTime) (vfs.NewTime, wire.Status) {
	if t.How != nfsclient.TimeClient {
		return vfs.NewTime{How: vfs.TimeNow}, wire.OK
	}
	if t.Time.Nsec >= 1e9 {
		return vfs.NewTime{}, nfsclient.ErrInval
	}
	return vfs.NewTime{How: vfs.TimeSet, Sec: t.Time.Sec - e.ClockAhead, Nsec: int64(t.Time.Nsec)}, wire.OK
}

// setAttr is SETATTR (RFC 8881 section 18.30). All attributes are set, or none.
func (c *call) setAttr(a *wire.SetAttr) wire.Status {
	o, st := c.file()
	if st != wire.OK {
		return st
	}
	set, st := c.toSet(o.ex, nil, &a.Attrs)
	if st != wire.OK {
		return st
	}
	if st := c.stateid(&a.Stateid); st != wire.OK {
		return st
	}
	if set.Set&vfs.SetSize != 0 {
		if o, st = c.regular(nfsclient.ErrInval); st != wire.OK {
			return st
		}
		if st := c.s.cfg.State.CheckIO(c.ses, o.handle(), a.Stateid, writeData); st != wire.OK {
			return st
		}
	} else if st := c.conflict(o, writeData); st != wire.OK {
		return st
	}
	cr := c.cred(o.ex)
	var ch vfs.Change
	if err := o.ex.Tree.Setattr(&cr, o.node, &set, nil, &ch); err != nil {
		return statusOf(err)
	}
	a.Done = a.Attrs.Mask
	return wire.OK
}
