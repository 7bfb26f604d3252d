package v4

import (
	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/state"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
)

// may asks the state whether a stateid lets the client read or write a file.
func (c *call) may(o object, s *wire.Stateid, want state.Access) wire.Status {
	if st := c.stateid(s); st != wire.OK {
		return st
	}
	return c.s.cfg.State.CheckIO(c.ses, o.handle(), *s, want)
}

// ranges is the operations of RFC 7862 section 15 on parts of files.
func (c *call) ranges(op wire.Operation) wire.Status {
	if o, ok := op.(*wire.OffloadStatus); ok {
		return c.s.cfg.State.OffloadStatus(c.ses, o)
	}
	o, st := c.regular(wire.ErrWrongType)
	if st != wire.OK {
		return st
	}
	defer c.hold()()
	cr := c.cred(o.ex)
	var ch vfs.Change
	switch a := op.(type) {
	case *wire.Seek:
		if st := c.may(o, &a.Stateid, readData); st != wire.OK {
			return st
		}
		at, eof, err := o.ex.Tree.Seek(&cr, o.node, a.Offset, a.Hole)
		if err != nil {
			return statusOf(err)
		}
		a.At, a.EOF = at, eof
	case *wire.Allocate:
		if st := c.may(o, &a.Stateid, writeData); st != wire.OK {
			return st
		}
		return statusOf(o.ex.Tree.Allocate(&cr, o.node, a.Offset, a.Length, &ch))
	case *wire.Deallocate:
		if st := c.may(o, &a.Stateid, writeData); st != wire.OK {
			return st
		}
		return statusOf(o.ex.Tree.Deallocate(&cr, o.node, a.Offset, a.Length, &ch))
	case *wire.Copy:
		return c.copy(o, a)
	case *wire.Clone:
		return c.clone(o, a)
	}
	return wire.OK
}

// source is the saved filehandle, of which COPY and CLONE read.
func (c *call) source(to object, from, into *wire.Stateid) (object, wire.Status) {
	o := c.saved
	switch {
	case o.gone != "":
		return o, nfsclient.ErrStale
	case o.node == nil || o.node.IsDir():
		return o, nfsclient.ErrIsDir
	case !o.node.IsRegular():
		return o, wire.ErrWrongType
	case o.ex != to.ex:
		return o, nfsclient.ErrXDev
	}
	if *from == wire.CurrentStateid {
		// Section 15.2.3: of the source, it is the saved one.
		if !c.savedState.set {
			return o, wire.ErrBadStateid
		}
		*from = c.savedState.id
	}
	if st := c.s.cfg.State.CheckIO(c.ses, o.handle(), *from, readData); st != wire.OK {
		return o, st
	}
	return o, c.may(to, into, writeData)
}

// copy is COPY (section 15.2), done when it is answered unless Config.Offload wants it otherwise.
func (c *call) copy(to object, a *wire.Copy) wire.Status {
	if len(a.Sources) > 0 {
		return nfsclient.ErrNotSupp
	}
	from, st := c.source(to, &a.From, &a.To)
	if st != wire.OK {
		return st
	}
	if f := c.s.cfg.Offload; f != nil && !a.Synchronous && f() {
		return c.offload(from, to, a)
	}
	cr := c.cred(to.ex)
	a.Verifier = c.s.cfg.Verifier()
	var ch vfs.Change
	n, err := to.ex.Tree.Copy(&cr, from.node, a.FromOffset, to.node, a.ToOffset, a.Count, &ch)
	if err != nil {
		return statusOf(err)
	}
	a.Copied, a.Committed = n, nfsclient.Unstable
	a.ResConsecutive, a.ResSynchronous = true, true
	return wire.OK
}

// clone is CLONE (section 15.13).
func (c *call) clone(to object, a *wire.Clone) wire.Status {
	from, st := c.source(to, &a.From, &a.To)
	if st != wire.OK {
		return st
	}
	cr := c.cred(to.ex)
	var ch vfs.Change
	err := to.ex.Tree.Clone(&cr, from.node, a.FromOffset, to.node, a.ToOffset, a.Count, &ch)
	if err == unix.ENOTTY || err == unix.EXDEV {
		return nfsclient.ErrNotSupp // the file system cannot
	}
	return statusOf(err)
}
