package nfsd

import (
	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
	"github.com/rdmafs/rdmafs/transport"
)

// serveACL answers NFSACL, if an export has access control lists.
func (s *Server) serveACL(q *transport.Request) transport.AcceptStat {
	if !s.acl {
		return transport.ProgUnavail
	}
	if stat := version(q, wire.ACLVersion); stat != transport.Success {
		return stat
	}
	switch q.Proc {
	case wire.ACLNull:
		return transport.Success
	case wire.ACLGet:
		s.stats.getACL.Add(1)
		return s.getACL(q)
	case wire.ACLSet:
		s.stats.setACL.Add(1)
		return s.setACL(q)
	}
	return transport.ProcUnavail
}

// getACL is GETACL. A file without lists has those of its mode.
func (s *Server) getACL(q *transport.Request) transport.AcceptStat {
	a, ok := args[wire.GetACLArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	var res wire.GetACLRes
	f, err := s.getWithACL(q, a.Handle)
	if err == nil {
		defer f.put()
		err = f.getACL(a.Mask, &res)
	}
	res.Status = statusOf(err)
	res.Append(q.Reply)
	return transport.Success
}

// getWithACL is get for exports that have access control lists.
func (s *Server) getWithACL(q *transport.Request, h nfsclient.Handle) (file, error) {
	f, err := s.get(q, h)
	if err == nil && !f.e.ACL {
		f.put()
		return file{}, unix.EOPNOTSUPP
	}
	return f, err
}

func (f file) getACL(mask uint32, res *wire.GetACLRes) error {
	var st vfs.Stat
	if err := f.e.tree.Stat(f.n, &st); err != nil {
		return err
	}
	f.e.post(&res.Attr, &st)
	if mask&^wire.ACLAll != 0 {
		return unix.EINVAL
	}
	res.ACLs.Mask = mask
	if mask&(wire.ACLAccess|wire.ACLAccessCount) != 0 {
		l, err := f.e.tree.ACL(f.n, false)
		if err != nil {
			return err
		}
		if len(l) == 0 {
			l = nfsclient.ModeACL(uint32(st.Mode))
		}
		w := wire.FromACL(l, false, st.Uid, st.Gid)
		res.ACLs.AccessCount = uint32(len(w))
		if mask&wire.ACLAccess != 0 {
			res.ACLs.Access = w
		}
	}
	if mask&(wire.ACLDefault|wire.ACLDefaultCount) != 0 && f.n.IsDir() {
		l, err := f.e.tree.ACL(f.n, true)
		if err != nil {
			return err
		}
		w := wire.FromACL(l, true, st.Uid, st.Gid)
		res.ACLs.DefaultCount = uint32(len(w))
		if mask&wire.ACLDefault != 0 {
			res.ACLs.Default = w
		}
	}
	return nil
}

// setACL is SETACL.
func (s *Server) setACL(q *transport.Request) transport.AcceptStat {
	a, ok := args[wire.SetACLArgs](q)
	if !ok || a.ACLs.Mask&^wire.ACLAll != 0 {
		return transport.GarbageArgs
	}
	var res wire.SetACLRes
	f, err := s.getWithACL(q, a.Handle)
	if err == nil {
		defer f.put()
		cr := f.e.cred(q)
		err = f.setACL(&cr, &a.ACLs)
		f.postAttr(&res.Attr)
	}
	res.Status = statusOf(err)
	res.Append(q.Reply)
	return transport.Success
}

func (f file) setACL(cr *vfs.Cred, a *wire.ACLs) error {
	for _, l := range []struct {
		isDefault bool
		mask      uint32
		entries   []wire.ACLEntry
	}{{false, wire.ACLAccess, a.Access}, {true, wire.ACLDefault, a.Default}} {
		if a.Mask&l.mask == 0 || l.isDefault && !f.n.IsDir() && len(l.entries) == 0 {
			continue
		}
		list, err := wire.ToACL(l.entries)
		if err != nil {
			return unix.EINVAL
		}
		if err := f.e.tree.SetACL(cr, f.n, l.isDefault, list); err != nil {
			return err
		}
	}
	return f.e.tree.SyncACL(f.n)
}
