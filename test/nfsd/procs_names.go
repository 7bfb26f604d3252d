package nfsd

import (
	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/state"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
	"github.com/rdmafs/rdmafs/transport"
)

// lookup is LOOKUP (RFC 1813 section 3.3.3).
func (s *Server) lookup(q *transport.Request) transport.AcceptStat {
	a, ok := args[wire.DirOp](q)
	if !ok {
		return transport.GarbageArgs
	}
	var res wire.LookupRes
	f, err := s.get(q, a.Dir)
	if err == nil {
		defer f.put()
		var st vfs.Stat
		var n *vfs.Node
		cr := f.e.cred(q)
		if n, err = f.e.tree.Lookup(&cr, f.n, a.Name, &st); err == nil {
			res.Handle = nfsclient.Handle(n.Handle())
			f.e.post(&res.Attr, &st)
			f.e.tree.Put(n)
		}
		f.postAttr(&res.Dir)
	}
	res.Status = statusOf(err)
	res.Append(q.Reply)
	return transport.Success
}

// postAttr fills in f's attributes if they can be had.
func (f file) postAttr(p *wire.PostAttr) {
	var st vfs.Stat
	if f.e.tree.Stat(f.n, &st) == nil {
		f.e.post(p, &st)
	}
}

// making carries out a procedure that makes a file: f makes it in dir.
func (s *Server) making(q *transport.Request, where *wire.DirOp, attr *wire.SetAttr,
	f func(dir file, cr *vfs.Cred, sa *vfs.SetAttr, st *vfs.Stat, ch *vfs.Change) (*vfs.Node, error)) transport.AcceptStat {
	var res wire.MadeRes
	var st vfs.Stat
	var ch vfs.Change
	dir, err := s.get(q, where.Dir)
	if err == nil {
		defer dir.put()
		var sa vfs.SetAttr
		if sa, err = dir.e.setAttr(attr); err == nil {
			cr := dir.e.cred(q)
			var n *vfs.Node
			if n, err = f(dir, &cr, &sa, &st, &ch); err == nil {
				res.Handle = wire.PostHandle{Set: true, Handle: nfsclient.Handle(n.Handle())}
				dir.e.post(&res.Attr, &st)
				dir.e.tree.Put(n)
			}
		}
		dir.e.wcc(&res.Dir, &ch)
	}
	res.Status = statusOf(err)
	res.Append(q.Reply)
	return transport.Success
}

// create is CREATE (section 3.3.8).
func (s *Server) create(q *transport.Request) transport.AcceptStat {
	a, ok := args[wire.CreateArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	how := vfs.Unchecked
	switch a.Mode {
	case wire.Guarded:
		how = vfs.Guarded
	case wire.Exclusive:
		how = vfs.Exclusive
	}
	return s.making(q, &a.Where, &a.Attr, func(dir file, cr *vfs.Cred, sa *vfs.SetAttr, st *vfs.Stat, ch *vfs.Change) (*vfs.Node, error) {
		if err := s.recallName(dir, a.Where.Name); err != nil {
			return nil, err
		}
		return dir.e.tree.Create(cr, dir.n, a.Where.Name, how, sa, a.Verifier, st, ch)
	})
}

// mkdir is MKDIR (section 3.3.9).
func (s *Server) mkdir(q *transport.Request) transport.AcceptStat {
	a, ok := args[wire.MkdirArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	return s.making(q, &a.Where, &a.Attr, func(dir file, cr *vfs.Cred, sa *vfs.SetAttr, st *vfs.Stat, ch *vfs.Change) (*vfs.Node, error) {
		return dir.e.tree.Mkdir(cr, dir.n, a.Where.Name, sa, st, ch)
	})
}

// symlink is SYMLINK (section 3.3.10).
func (s *Server) symlink(q *transport.Request) transport.AcceptStat {
	a, ok := args[wire.SymlinkArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	return s.making(q, &a.Where, &a.Attr, func(dir file, cr *vfs.Cred, sa *vfs.SetAttr, st *vfs.Stat, ch *vfs.Change) (*vfs.Node, error) {
		return dir.e.tree.Symlink(cr, dir.n, a.Where.Name, string(a.Target.Data), sa, st, ch)
	})
}

// mknod is MKNOD (section 3.3.11).
func (s *Server) mknod(q *transport.Request) transport.AcceptStat {
	a, ok := args[wire.MknodArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	var kind uint32
	switch a.Type {
	case nfsclient.BlockDevice:
		kind = unix.S_IFBLK
	case nfsclient.CharDevice:
		kind = unix.S_IFCHR
	case nfsclient.Socket:
		kind = unix.S_IFSOCK
	case nfsclient.FIFO:
		kind = unix.S_IFIFO
	default:
		res := wire.MadeRes{Status: nfsclient.ErrBadType}
		if dir, err := s.get(q, a.Where.Dir); err == nil {
			dir.postAttr(&res.Dir.After)
			dir.put()
		} else {
			res.Status = statusOf(err)
		}
		res.Append(q.Reply)
		return transport.Success
	}
	return s.making(q, &a.Where, &a.Attr, func(dir file, cr *vfs.Cred, sa *vfs.SetAttr, st *vfs.Stat, ch *vfs.Change) (*vfs.Node, error) {
		return dir.e.tree.Mknod(cr, dir.n, a.Where.Name, kind, a.Dev.Major, a.Dev.Minor, sa, st, ch)
	})
}

// remove is REMOVE (section 3.3.12), rmdir RMDIR (section 3.3.13).
func (s *Server) remove(q *transport.Request) transport.AcceptStat {
	return s.removing(q, (*vfs.Tree).Remove)
}

func (s *Server) rmdir(q *transport.Request) transport.AcceptStat {
	return s.removing(q, (*vfs.Tree).Rmdir)
}

func (s *Server) removing(q *transport.Request, f func(*vfs.Tree, *vfs.Cred, *vfs.Node, string, *vfs.Change) error) transport.AcceptStat {
	a, ok := args[wire.DirOp](q)
	if !ok {
		return transport.GarbageArgs
	}
	var res wire.WccRes
	var ch vfs.Change
	dir, err := s.get(q, a.Dir)
	if err == nil {
		defer dir.put()
		cr := dir.e.cred(q)
		if err = s.recallName(dir, a.Name); err == nil {
			err = f(dir.e.tree, &cr, dir.n, a.Name, &ch)
		}
		dir.e.wcc(&res.Wcc, &ch)
	}
	res.Status = statusOf(err)
	res.Append(q.Reply)
	return transport.Success
}

// rename is RENAME (section 3.3.14).
func (s *Server) rename(q *transport.Request) transport.AcceptStat {
	a, ok := args[wire.RenameArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	var res wire.RenameRes
	var chFrom, chTo vfs.Change
	from, err := s.get(q, a.From.Dir)
	if err == nil {
		defer from.put()
		var to file
		if to, err = s.get(q, a.To.Dir); err == nil {
			defer to.put()
			if from.e != to.e {
				err = unix.EXDEV
			} else {
				cr := from.e.cred(q)
				if err = s.recallName(from, a.From.Name); err == nil {
					err = s.recallName(to, a.To.Name)
				}
				if err == nil {
					err = from.e.tree.Rename(&cr, from.n, a.From.Name, to.n, a.To.Name, &chFrom, &chTo)
				}
			}
			to.e.wcc(&res.ToDir, &chTo)
		}
		from.e.wcc(&res.FromDir, &chFrom)
	}
	res.Status = statusOf(err)
	res.Append(q.Reply)
	return transport.Success
}

// link is LINK (section 3.3.15).
func (s *Server) link(q *transport.Request) transport.AcceptStat {
	a, ok := args[wire.LinkArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	var res wire.LinkRes
	var st vfs.Stat
	var ch vfs.Change
	f, err := s.get(q, a.Handle)
	if err == nil {
		defer f.put()
		var dir file
		if dir, err = s.get(q, a.Where.Dir); err == nil {
			defer dir.put()
			if f.e != dir.e {
				err = unix.EXDEV
			} else if err = s.recall(f, state.Write); err == nil {
				cr := dir.e.cred(q)
				err = dir.e.tree.Link(&cr, f.n, dir.n, a.Where.Name, &st, &ch)
			}
			dir.e.wcc(&res.Dir, &ch)
		}
		if err == nil {
			f.e.post(&res.Attr, &st)
		} else {
			f.postAttr(&res.Attr)
		}
	}
	res.Status = statusOf(err)
	res.Append(q.Reply)
	return transport.Success
}
