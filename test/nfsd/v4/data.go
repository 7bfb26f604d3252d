package v4

import (
	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
	"github.com/rdmafs/rdmafs/transport"
)

// maxPayloads bounds the operations of a COMPOUND that lend memory for their results: transports have
// room for no more payloads in a reply.
const maxPayloads = 4

// lease borrows memory for n bytes of results. A transport that has none to lend now may have later.
func (c *call) lease(n int) (transport.Payload, []byte, wire.Status) {
	if len(c.payloads) == maxPayloads {
		return nil, nil, wire.ErrResource
	}
	seg, err := c.q.Lease(n)
	if err != nil {
		return nil, nil, wire.ErrDelay
	}
	return transport.Payload{seg}, seg.Bytes(), wire.OK
}

// marked makes the first n bytes of v a payload of the reply.
func (c *call) marked(v transport.Payload, n int) wire.Bulk {
	v[0] = v[0].Slice(0, n)
	i := c.q.AddPayload(v)
	c.payloads = append(c.payloads, v)
	return wire.Marked(i)
}

// room is how many bytes of data fit into what is left of the reply.
func (c *call) room() int { return max(c.limit-c.q.Reply.Len()-64, 0) &^ 3 }

// read is READ (RFC 8881 section 18.22).
func (c *call) read(a *wire.Read) wire.Status {
	o, st := c.regular(wire.ErrWrongType)
	if st != wire.OK {
		return st
	}
	if st := c.stateid(&a.Stateid); st != wire.OK {
		return st
	}
	if st := c.s.cfg.State.CheckIO(c.ses, o.handle(), a.Stateid, readData); st != wire.OK {
		return st
	}
	v, b, st := c.lease(min(int(min(a.Count, uint32(c.s.cfg.MaxIO))), c.room()))
	if st != wire.OK {
		return st
	}
	cr := c.cred(o.ex)
	var fs vfs.Stat
	n, eof, err := o.ex.Tree.Read(&cr, o.node, a.Offset, b, &fs)
	if err != nil {
		return statusOf(err)
	}
	c.s.cfg.BytesRead.Add(uint64(n))
	a.EOF, a.Data = eof, c.marked(v, n)
	return wire.OK
}

// hold keeps a crash away until release.
func (c *call) hold() (release func()) {
	if c.s.cfg.Hold == nil {
		return func() {}
	}
	return c.s.cfg.Hold()
}

// write is WRITE (section 18.32).
func (c *call) write(a *wire.Write) wire.Status {
	o, st := c.regular(wire.ErrWrongType)
	if st != wire.OK {
		return st
	}
	if st := c.stateid(&a.Stateid); st != wire.OK {
		return st
	}
	if st := c.s.cfg.State.CheckIO(c.ses, o.handle(), a.Stateid, writeData); st != wire.OK {
		return st
	}
	defer c.hold()()
	// The verifier of before: should the write be lost from now on, COMMIT will show another.
	a.Verifier = c.s.cfg.Verifier()
	cr := c.cred(o.ex)
	var ch vfs.Change
	data := a.Data.Data[:min(a.Data.Len, c.s.cfg.MaxIO)]
	n, how, err := o.ex.Tree.Write(&cr, o.node, a.Offset, data, vfs.Stable(a.Stable), &ch)
	if err != nil {
		return statusOf(err)
	}
	c.s.cfg.BytesWritten.Add(uint64(n))
	a.Count, a.Committed = uint32(n), nfsclient.Stable(how)
	return wire.OK
}

// commit is COMMIT (section 18.3), of the whole file whatever the range.
func (c *call) commit(a *wire.Commit) wire.Status {
	o, st := c.regular(wire.ErrWrongType)
	if st != wire.OK {
		return st
	}
	defer c.hold()()
	var ch vfs.Change
	if err := o.ex.Tree.Commit(o.node, &ch); err != nil {
		return statusOf(err)
	}
	// The verifier of after: it shows whether anything was lost before.
	a.Verifier = c.s.cfg.Verifier()
	return wire.OK
}

// readLink is READLINK (section 18.24).
func (c *call) readLink(a *wire.ReadLink) wire.Status {
	o := c.cur
	switch {
	case o.gone != "":
		return nfsclient.ErrStale
	case o.dir != nil || !o.node.IsSymlink():
		return wire.ErrWrongType
	}
	var fs vfs.Stat
	if err := o.ex.Tree.Stat(o.node, &fs); err != nil {
		return statusOf(err)
	}
	// A symbolic link says how long its target is, but for those of /proc.
	want := wire.MaxPath
	if fs.Size > 0 && fs.Size < wire.MaxPath {
		want = int(fs.Size)
	}
	if want > c.room() {
		return c.over
	}
	v, b, st := c.lease(want)
	if st != wire.OK {
		return st
	}
	n, err := o.ex.Tree.Readlink(o.node, b)
	if err != nil {
		return statusOf(err)
	}
	a.Target = c.marked(v, n)
	return wire.OK
}

// xattr is the operations of RFC 8276.
func (c *call) xattr(op wire.Operation) wire.Status {
	o := c.cur
	switch {
	case o.gone != "":
		return nfsclient.ErrStale
	case o.node == nil:
		return nfsclient.ErrNotSupp
	case !o.node.IsDir() && !o.node.IsRegular():
		return wire.ErrWrongType
	}
	cr := c.cred(o.ex)
	t := o.ex.Tree
	var ch vfs.Change
	switch a := op.(type) {
	case *wire.GetXattr:
		v, err := t.GetXattr(&cr, o.node, a.Name)
		if err != nil {
			return statusOf(err)
		}
		if len(v)+12 > c.room() {
			return c.over
		}
		a.Value = v
	case *wire.ListXattrs:
		return c.listXattrs(a)
	case *wire.SetXattr:
		if st := c.conflict(o, writeData); st != wire.OK {
			return st
		}
		flags := map[nfsclient.SetXattr]int{nfsclient.XattrCreate: unix.XATTR_CREATE, nfsclient.XattrReplace: unix.XATTR_REPLACE}[a.How]
		if err := t.SetXattr(&cr, o.node, a.Name, a.Value, flags, &ch); err != nil {
			return statusOf(err)
		}
		a.Change = changeInfo(&ch)
	case *wire.RemoveXattr:
		if st := c.conflict(o, writeData); st != wire.OK {
			return st
		}
		if err := t.RemoveXattr(&cr, o.node, a.Name, &ch); err != nil {
			return statusOf(err)
		}
		a.Change = changeInfo(&ch)
	}
	return wire.OK
}

// listXattrs is LISTXATTRS. A cookie is the number of names before it.
func (c *call) listXattrs(a *wire.ListXattrs) wire.Status {
	cr := c.cred(c.cur.ex)
	names, err := c.cur.ex.Tree.ListXattrs(&cr, c.cur.node)
	if err != nil {
		return statusOf(err)
	}
	if a.Cookie > uint64(len(names)) {
		return nfsclient.ErrBadCookie
	}
	names = names[a.Cookie:]
	left := min(int(min(a.MaxCount, uint32(c.s.cfg.MaxIO))), c.room()) - 16
	fit := 0
	for fit < len(names) {
		size := 4 + (len(names[fit])+3)&^3
		if size > left {
			break
		}
		left -= size
		fit++
	}
	if fit == 0 && len(names) > 0 || left < 0 {
		return nfsclient.ErrTooSmall
	}
	a.Names, a.ResCookie, a.EOF = names[:fit], a.Cookie+uint64(fit), fit == len(names)
	return wire.OK
}
