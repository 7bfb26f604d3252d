package v4

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// client is the operations on client records and sessions, and those on stateids without a file.
func (c *call) client(o wire.Operation) wire.Status {
	m := c.s.cfg.State
	switch o := o.(type) {
	case *wire.ExchangeID:
		return m.ExchangeID(c.peer, c.ses, o)
	case *wire.CreateSession:
		return m.CreateSession(c.peer, c.ses, o)
	case *wire.DestroySession:
		return m.DestroySession(c.peer, c.ses, c.at == len(c.comp.Ops)-1, o)
	case *wire.DestroyClientID:
		return m.DestroyClientID(c.peer, c.ses, o)
	case *wire.BindConnToSession:
		if c.ses != nil {
			return wire.ErrNotOnlyOp // RFC 8881 section 18.34.3
		}
		return m.BindConn(c.peer, o)
	case *wire.ReclaimComplete:
		return m.ReclaimComplete(c.ses, o)
	case *wire.TestStateID:
		return m.TestStateid(c.ses, o)
	case *wire.FreeStateID:
		if st := c.stateid(&o.Stateid); st != wire.OK {
			return st
		}
		return m.FreeStateid(c.ses, o)
	}
	return nfsclient.ErrNotSupp
}

// stateOp is the operations on opens, locks and delegations of the current file, which may be gone.
func (c *call) stateOp(o wire.Operation) wire.Status {
	switch {
	case c.cur.dir != nil || c.cur.node != nil && c.cur.node.IsDir():
		return nfsclient.ErrIsDir
	case c.cur.node != nil && !c.cur.node.IsRegular():
		return wire.ErrWrongType
	}
	m, f := c.s.cfg.State, c.cur.handle()
	switch o := o.(type) {
	case *wire.Close:
		if st := c.stateid(&o.Stateid); st != wire.OK {
			return st
		}
		st := m.Close(c.ses, f, o)
		if st == wire.OK {
			c.keep(o.ResStateid)
		}
		return st
	case *wire.OpenDowngrade:
		if st := c.stateid(&o.Stateid); st != wire.OK {
			return st
		}
		st := m.OpenDowngrade(c.ses, f, o)
		if st == wire.OK {
			c.keep(o.ResStateid)
		}
		return st
	case *wire.DelegReturn:
		if st := c.stateid(&o.Stateid); st != wire.OK {
			return st
		}
		return m.DelegReturn(c.ses, f, o)
	case *wire.LockT:
		if c.cur.gone != "" {
			return nfsclient.ErrStale
		}
		st := m.LockT(c.ses, f, o)
		c.shorten(st, &o.Denied)
		return st
	case *wire.LockU:
		if st := c.stateid(&o.Stateid); st != wire.OK {
			return st
		}
		st := m.LockU(c.ses, f, o)
		if st == wire.OK {
			c.keep(o.ResStateid)
		}
		return st
	case *wire.Lock:
		return c.lock(o)
	}
	return nfsclient.ErrNotSupp
}

func (c *call) lock(o *wire.Lock) wire.Status {
	if c.cur.gone != "" {
		return nfsclient.ErrStale
	}
	s := &o.LockStateid
	if o.New {
		s = &o.OpenStateid
	}
	if st := c.stateid(s); st != wire.OK {
		return st
	}
	st := c.s.cfg.State.Lock(c.ses, c.cur.handle(), o)
	if st == wire.OK {
		c.keep(o.Stateid)
	}
	c.shorten(st, &o.Denied)
	return st
}

// shorten leaves out whose lock it is if there is no room for that in the reply.
func (c *call) shorten(st wire.Status, d *wire.Denied) {
	const denied = 8 + 8 + 8 + 4 + 8 + 4
	if st == wire.ErrDenied && c.q.Reply.Len()+denied+len(d.Owner.Owner)+3 > c.limit {
		d.Owner.Owner = ""
	}
}
