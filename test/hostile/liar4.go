package hostile

import (
	"math/rand/v2"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// asked are the operations of a call of version 4; nil for other calls, and for one whose data travels beside it.
func asked(q *transport.Request) *wire.Compound {
	if q.Vers != wire.Version || q.Proc != wire.ProcCompound {
		return nil
	}
	// A copy: what has come as a chunk can be read once alone, by the server.
	all := *q.Args
	var r xdr.Reader
	r.Reset(all.Fixed(all.Remaining()), nil)
	c := new(wire.Compound)
	if c.ParseArgs(&r); r.End() != nil {
		return nil
	}
	return c
}

// compound lies in the results of c, which begin at start; l.mu is held. Data is not lied about: results that have some are
// changed only by a lie that leaves it out.
func (l *Liar) compound(q *transport.Request, start int, c *wire.Compound) bool {
	var r xdr.Reader
	r.Reset(q.Reply.AppendFlat(nil, start), nil)
	if c.ParseRes(&r); r.End() != nil {
		return false
	}
	data := withData(c)
	if !l.lie.Apply4(l.rand, c) || data && withData(c) {
		return false
	}
	q.Reply.Truncate(start)
	c.AppendRes(q.Reply)
	return true
}

// withData reports whether an operation was answered with data.
func withData(c *wire.Compound) bool {
	for i, o := range c.Ops {
		if st, answered := c.Outcome(i); !answered || st != wire.OK {
			break
		}
		switch o := o.(type) {
		case *wire.Read:
			if o.Data.Len > 0 {
				return true
			}
		case *wire.ReadLink:
			return true
		}
	}
	return false
}

// results4 has f change the results of each operation that was carried out.
func results4(c *wire.Compound, f func(wire.Operation) bool) (changed bool) {
	for i, o := range c.Ops {
		if st, answered := c.Outcome(i); answered && st == wire.OK && f(o) {
			changed = true
		}
	}
	return changed
}

// attributes4 has f change all attributes in results.
func attributes4(c *wire.Compound, f func(*wire.Attrs)) bool {
	return results4(c, func(o wire.Operation) bool {
		switch o := o.(type) {
		case *wire.GetAttr:
			f(&o.Attrs)
		case *wire.ReadDir:
			for i := range o.Entries {
				f(&o.Entries[i].Attrs)
			}
		default:
			return false
		}
		return true
	})
}

// listings4 has f change the results of READDIR.
func listings4(c *wire.Compound, f func(*wire.ReadDir)) bool {
	return results4(c, func(o wire.Operation) bool {
		d, ok := o.(*wire.ReadDir)
		if ok {
			f(d)
		}
		return ok
	})
}

// fail4 has the first operation behind from fail with a status; false if there is none.
func fail4(c *wire.Compound, from int, st wire.Status) bool {
	if c.Done <= from {
		return false
	}
	c.Done, c.Status = from+1, st
	return true
}

// anyStatus is a status of version 4, or none.
func anyStatus(r *rand.Rand) wire.Status {
	switch r.IntN(8) {
	case 0:
		return wire.Status(1 + r.IntN(100))
	case 1:
		return 1<<32 - 1
	}
	return wire.Status(10001 + r.IntN(int(wire.ErrXattr2Big)-10000))
}
