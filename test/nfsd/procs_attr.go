package nfsd

import (
	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/state"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
	"github.com/rdmafs/rdmafs/transport"
)

// file is a node in use by a procedure.
type file struct {
	e *export
	n *vfs.Node
}

// get refers to the file of a handle that may be reached as q is secured; the procedure
// puts it.
func (s *Server) get(q *transport.Request, h nfsclient.Handle) (file, error) {
	f, err := s.getAnyhow(h)
	if err == nil && !f.e.allows(q) {
		f.put()
		return file{}, errSecurity
	}
	return f, err
}

// getToMount is get for what a client asks of an export's root before it knows how calls
// are to be secured (RFC 2623 section 2.3.2): of the root anybody may ask it.
func (s *Server) getToMount(q *transport.Request, h nfsclient.Handle) (file, error) {
	f, err := s.getAnyhow(h)
	if err == nil && !f.e.allows(q) && (f.n != f.e.tree.Root() || f.e.inClear(q)) {
		f.put()
		return file{}, errSecurity
	}
	return f, err
}

// getAnyhow is get for programs other than NFS's own, which come unsecured.
func (s *Server) getAnyhow(h nfsclient.Handle) (file, error) {
	e, err := s.exportOf(h)
	if err != nil {
		return file{}, err
	}
	n, err := e.tree.Get(string(h))
	return file{e, n}, err
}

func (f file) put() { f.e.tree.Put(f.n) }

// getattr is GETATTR (RFC 1813 section 3.3.1).
func (s *Server) getattr(q *transport.Request) transport.AcceptStat {
	a, ok := args[wire.HandleArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	var res wire.GetAttrRes
	var st vfs.Stat
	f, err := s.getToMount(q, a.Handle)
	if err == nil {
		defer f.put()
		if err = f.e.tree.Stat(f.n, &st); err == nil {
			f.e.attr(&res.Attr, &st)
		}
	}
	res.Status = statusOf(err)
	res.Append(q.Reply)
	return transport.Success
}

// setattr is SETATTR (section 3.3.2).
func (s *Server) setattr(q *transport.Request) transport.AcceptStat {
	a, ok := args[wire.SetAttrArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	var res wire.WccRes
	var ch vfs.Change
	f, err := s.get(q, a.Handle)
	if err == nil {
		defer f.put()
		if err = s.recall(f, state.Write); err == nil {
			err = f.setattr(q, &a, &ch)
		}
		f.e.wcc(&res.Wcc, &ch)
	}
	res.Status = statusOf(err)
	res.Append(q.Reply)
	return transport.Success
}

func (f file) setattr(q *transport.Request, a *wire.SetAttrArgs, ch *vfs.Change) error {
	sa, err := f.e.setAttr(&a.Attr)
	if err != nil {
		return err
	}
	var guard *vfs.Guard
	if a.Guarded {
		guard = &vfs.Guard{Sec: a.Guard.Sec - uint32(f.e.ClockAhead), Nsec: a.Guard.Nsec}
	}
	cr := f.e.cred(q)
	return f.e.tree.Setattr(&cr, f.n, &sa, guard, ch)
}

// access is ACCESS (section 3.3.4).
func (s *Server) access(q *transport.Request) transport.AcceptStat {
	a, ok := args[wire.AccessArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	var res wire.AccessRes
	var st vfs.Stat
	f, err := s.get(q, a.Handle)
	if err == nil {
		defer f.put()
		if err = f.e.tree.Stat(f.n, &st); err == nil {
			cr := f.e.cred(q)
			ask := rightsFor(a.Access, f.n.IsDir())
			var has uint32
			has, err = f.e.tree.Allowed(&cr, f.n, &st, ask)
			res.Access = a.Access & accessOf(has, f.n.IsDir())
			f.e.post(&res.Attr, &st)
		}
	}
	res.Status = statusOf(err)
	res.Append(q.Reply)
	return transport.Success
}

// accessOf is the bits of ACCESS that the rights has give. LOOKUP and DELETE
// mean something for directories only, EXECUTE for other files only.
func accessOf(has uint32, dir bool) nfsclient.AccessMask {
	var m nfsclient.AccessMask
	if has&vfs.MayRead != 0 {
		m |= nfsclient.AccessRead
	}
	if has&vfs.MayWrite != 0 {
		m |= nfsclient.AccessModify | nfsclient.AccessExtend
		if dir && has&vfs.MayExec != 0 {
			m |= nfsclient.AccessDelete
		}
	}
	if has&vfs.MayExec != 0 {
		if dir {
			m |= nfsclient.AccessLookup
		} else {
			m |= nfsclient.AccessExecute
		}
	}
	return m
}

// rightsFor is the rights that must be asked for to answer want.
func rightsFor(want nfsclient.AccessMask, dir bool) uint32 {
	var r uint32
	if want&nfsclient.AccessRead != 0 {
		r |= vfs.MayRead
	}
	if want&(nfsclient.AccessModify|nfsclient.AccessExtend) != 0 {
		r |= vfs.MayWrite
	}
	if want&nfsclient.AccessDelete != 0 && dir {
		r |= vfs.MayWrite | vfs.MayExec
	}
	if dir && want&nfsclient.AccessLookup != 0 || !dir && want&nfsclient.AccessExecute != 0 {
		r |= vfs.MayExec
	}
	return r
}

// fsstat is FSSTAT (section 3.3.18).
func (s *Server) fsstat(q *transport.Request) transport.AcceptStat {
	var res wire.FSStatRes
	return s.fsCall(q, &res.Status, &res.Attr, &res, func(f file) error {
		var fs unix.Statfs_t
		if err := f.e.tree.StatFS(f.n, &fs); err != nil {
			return err
		}
		unit := uint64(fs.Frsize)
		if unit == 0 {
			unit = uint64(fs.Bsize)
		}
		res.TotalBytes, res.FreeBytes, res.AvailBytes = fs.Blocks*unit, fs.Bfree*unit, fs.Bavail*unit
		res.TotalFiles, res.FreeFiles, res.AvailFiles = fs.Files, fs.Ffree, fs.Ffree
		return nil
	})
}

// dirPref is the preferred size of READDIR.
const dirPref = 128 << 10

// fsinfo is FSINFO (section 3.3.19).
func (s *Server) fsinfo(q *transport.Request) transport.AcceptStat {
	var res wire.FSInfoRes
	return s.fsCall(q, &res.Status, &res.Attr, &res, func(file) error {
		size := uint32(s.cfg.MaxIO)
		res.ReadMax, res.ReadPref, res.ReadMult = size, size, 4096
		res.WriteMax, res.WritePref, res.WriteMult = size, size, 4096
		res.DirPref = min(dirPref, size)
		res.MaxFileSize = vfs.MaxFileSize
		res.TimeDelta = wire.Time{Nsec: 1}
		res.Properties = wire.PropLink | wire.PropSymlink | wire.PropHomogeneous | wire.PropCanSetTime
		return nil
	})
}

// linkMax is what ext4 allows; the kernel does not tell it of other file
// systems, which refuse for themselves.
const linkMax = 65000

// pathconf is PATHCONF (section 3.3.20).
func (s *Server) pathconf(q *transport.Request) transport.AcceptStat {
	var res wire.PathConfRes
	return s.fsCall(q, &res.Status, &res.Attr, &res, func(f file) error {
		var fs unix.Statfs_t
		if err := f.e.tree.StatFS(f.n, &fs); err != nil {
			return err
		}
		res.LinkMax, res.NameMax = linkMax, uint32(min(fs.Namelen, 255))
		res.NoTrunc, res.ChownRestricted, res.CasePreserving = true, true, true
		return nil
	})
}

// fsCall is what the calls about a file system have in common.
func (s *Server) fsCall(q *transport.Request, status *nfsclient.Status, attr *wire.PostAttr, res wire.Message, fill func(file) error) transport.AcceptStat {
	a, ok := args[wire.HandleArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	f, err := s.getToMount(q, a.Handle)
	if err == nil {
		defer f.put()
		var st vfs.Stat
		if err = f.e.tree.Stat(f.n, &st); err == nil {
			f.e.post(attr, &st)
			err = fill(f)
		}
	}
	*status = statusOf(err)
	res.Append(q.Reply)
	return transport.Success
}
