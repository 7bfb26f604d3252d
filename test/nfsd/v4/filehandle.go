package v4

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
)

// set makes o the current filehandle, which has no stateid yet (RFC 8881 section 16.2.3.1.2).
func (c *call) set(o object) { c.cur, c.curState = o, stateid{} }

// own has a node that the call refers to given back at its end.
func (c *call) own(ex *Export, n *vfs.Node) object {
	o := object{ex: ex, node: n}
	c.refs = append(c.refs, o)
	return o
}

// stateid replaces the special stateid that means the current one.
func (c *call) stateid(s *wire.Stateid) wire.Status {
	if *s != wire.CurrentStateid {
		return wire.OK
	}
	if !c.curState.set {
		return wire.ErrBadStateid
	}
	*s = c.curState.id
	return wire.OK
}

// keep makes s the current stateid.
func (c *call) keep(s wire.Stateid) { c.curState = stateid{true, s} }

// putFH is PUTFH (section 18.19). A file that is gone can be named as long as there is state of it, for
// that to be given back.
func (c *call) putFH(a *wire.PutFH) wire.Status {
	if d, ours := c.s.ns.of(a.Handle); ours {
		if d == nil {
			return nfsclient.ErrStale
		}
		c.set(object{dir: d})
		return wire.OK
	}
	ex, err := c.s.cfg.Exports.Of(a.Handle)
	if err != nil {
		return statusOf(err)
	}
	n, err := ex.Tree.Get(string(a.Handle))
	switch {
	case err == nil:
		c.set(c.own(ex, n))
	case err == unix.ESTALE && c.s.cfg.State.Held(a.Handle):
		c.set(object{gone: a.Handle})
	default:
		return statusOf(err)
	}
	return wire.OK
}

// file is the current filehandle if it is one of an export that is still there. st is why not.
func (c *call) file() (o object, st wire.Status) { return usable(c.cur) }

func usable(o object) (object, wire.Status) {
	switch {
	case o.gone != "":
		return o, nfsclient.ErrStale
	case o.node == nil:
		return o, nfsclient.ErrReadOnly // the pseudo file system, which nothing is changed in
	}
	return o, wire.OK
}

// regular is file for what only regular files have; other is the status for those that are neither that nor
// directories.
func (c *call) regular(other wire.Status) (o object, st wire.Status) {
	o = c.cur
	switch {
	case o.gone != "":
		return o, nfsclient.ErrStale
	case o.node == nil || o.node.IsDir():
		return o, nfsclient.ErrIsDir
	case !o.node.IsRegular():
		return o, other
	}
	return o, wire.OK
}

// inDirectory is the status for a filehandle that must be a directory's.
func inDirectory(o object) wire.Status {
	switch {
	case o.dir != nil:
		return wire.OK
	case o.gone != "":
		return nfsclient.ErrStale
	case o.node.IsDir():
		return wire.OK
	case o.node.IsSymlink():
		return wire.ErrSymlink
	}
	return nfsclient.ErrNotDir
}

// checkName is the status of a component (section 14.5).
func checkName(name string) wire.Status {
	switch {
	case name == "":
		return nfsclient.ErrInval
	case len(name) > maxName:
		return nfsclient.ErrNameTooLong
	case name == "." || name == "..":
		return wire.ErrBadName
	case strings.ContainsAny(name, "/\x00"):
		return wire.ErrBadChar
	}
	return wire.OK
}

const maxName = 255

// lookup is LOOKUP (section 18.13).
func (c *call) lookup(name string) wire.Status {
	o, st := c.child(name)
	if st == wire.OK {
		c.set(o)
	}
	return st
}

// child is what a name in the current directory names.
func (c *call) child(name string) (object, wire.Status) {
	if st := inDirectory(c.cur); st != wire.OK {
		return object{}, st
	}
	if st := checkName(name); st != wire.OK {
		return object{}, st
	}
	if d := c.cur.dir; d != nil {
		for _, sub := range d.children {
			if sub.name == name {
				return c.s.ns.at(sub), wire.OK
			}
		}
		return object{}, nfsclient.ErrNoEnt
	}
	ex := c.cur.ex
	var st vfs.Stat
	cr := c.cred(ex)
	n, err := ex.Tree.Lookup(&cr, c.cur.node, name, &st)
	if err != nil {
		return object{}, statusOf(err)
	}
	o := c.own(ex, n)
	if n.IsDir() {
		if in, ok := c.s.ns.crossed(ex, n.Handle()); ok {
			o = in
		}
	}
	return o, wire.OK
}

// lookupParent is LOOKUPP (section 18.14).
func (c *call) lookupParent() wire.Status {
	if st := inDirectory(c.cur); st != wire.OK {
		return st
	}
	o, st := c.parent()
	if st == wire.OK {
		c.set(o)
	}
	return st
}

// parent is the directory above the current one.
func (c *call) parent() (object, wire.Status) {
	if d := c.s.ns.place(c.cur); d != nil {
		if d == c.s.ns.root {
			return object{}, nfsclient.ErrNoEnt
		}
		return c.above(d)
	}
	ex := c.cur.ex
	var st vfs.Stat
	cr := c.cred(ex)
	n, err := ex.Tree.Lookup(&cr, c.cur.node, "..", &st)
	if err != nil {
		return object{}, statusOf(err)
	}
	return c.own(ex, n), wire.OK
}

// above is the directory above d: one of the pseudo file system, or of the export that d's place is in.
func (c *call) above(d *dir) (object, wire.Status) {
	up := d.parent
	var names []string
	for ; up.export < 0 && up != c.s.ns.root; up = up.parent {
		names = append(names, up.name)
	}
	if up.export < 0 {
		return object{dir: d.parent}, wire.OK
	}
	o := c.s.ns.at(up)
	cr := c.cred(o.ex)
	for i := len(names) - 1; i >= 0; i-- {
		var st vfs.Stat
		n, err := o.ex.Tree.Lookup(&cr, o.node, names[i], &st)
		if err != nil {
			return object{}, statusOf(err)
		}
		o = c.own(o.ex, n)
	}
	return o, wire.OK
}

// secInfo is SECINFO (section 18.29), which uses the current filehandle up.
func (c *call) secInfo(a *wire.SecInfo) wire.Status {
	o, st := c.child(a.Name)
	if st == wire.OK {
		a.Flavors = flavorsOf(o)
		c.set(object{})
	}
	return st
}

// secInfoNoName is SECINFO_NO_NAME (section 18.45).
func (c *call) secInfoNoName(a *wire.SecInfoNoName) wire.Status {
	o := c.cur
	if a.Parent {
		st := inDirectory(o)
		if st == wire.OK {
			o, st = c.parent()
		}
		if st != wire.OK {
			return st
		}
	}
	a.Flavors = flavorsOf(o)
	c.set(object{})
	return wire.OK
}
