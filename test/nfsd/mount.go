package nfsd

import (
	"net"
	"path"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	nlm "github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
	"github.com/rdmafs/rdmafs/transport"
)

// maxMounts bounds the list that DUMP returns, which is for information only.
const maxMounts = 1024

// mountList are the mounts that clients have reported.
type mountList struct {
	mu sync.Mutex
	m  map[wire.MountEntry]struct{}
}

func (l *mountList) add(e wire.MountEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m == nil {
		l.m = map[wire.MountEntry]struct{}{}
	}
	if len(l.m) < maxMounts {
		l.m[e] = struct{}{}
	}
}

// remove drops what match accepts.
func (l *mountList) remove(match func(wire.MountEntry) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := range l.m {
		if match(e) {
			delete(l.m, e)
		}
	}
}

func (l *mountList) all() []wire.MountEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]wire.MountEntry, 0, len(l.m))
	for e := range l.m {
		all = append(all, e)
	}
	return all
}

// serveMount answers the MOUNT program (RFC 1813 section 5.2).
func (s *Server) serveMount(q *transport.Request) transport.AcceptStat {
	host, _, err := net.SplitHostPort(q.Peer)
	if err != nil {
		host = q.Peer
	}
	host = host[:min(len(host), wire.MaxMountName)]
	switch q.Proc {
	case wire.MountNull:
		return transport.Success
	case wire.MountMnt:
		return s.mnt(q, host)
	case wire.MountDump:
		(&wire.DumpRes{Mounts: s.mounts.all()}).Append(q.Reply)
		return transport.Success
	case wire.MountUmnt:
		a, ok := args[wire.PathArgs](q)
		if !ok {
			return transport.GarbageArgs
		}
		gone := wire.MountEntry{Host: host, Path: path.Clean(a.Path)}
		s.mounts.remove(func(e wire.MountEntry) bool { return e == gone })
		return transport.Success
	case wire.MountUmntAll:
		s.mounts.remove(func(e wire.MountEntry) bool { return e.Host == host })
		return transport.Success
	case wire.MountExport:
		var res wire.ExportRes
		for _, e := range s.exports {
			res.Exports = append(res.Exports, wire.ExportEntry{Path: e.Path})
		}
		res.Append(q.Reply)
		return transport.Success
	}
	return transport.ProcUnavail
}

func (s *Server) mnt(q *transport.Request, host string) transport.AcceptStat {
	a, ok := args[wire.PathArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	s.stats.mounts.Add(1)
	var res wire.MntRes
	e, h, err := s.resolve(a.Path)
	res.Status = mountStatusOf(err)
	if err == nil {
		res.Handle = h
		res.Flavors = e.flavors()
		s.mounts.add(wire.MountEntry{Host: host, Path: path.Clean(a.Path)})
	}
	res.Append(q.Reply)
	return transport.Success
}

// resolve finds an export and the handle of a directory at or below it, without
// following symbolic links: a path under none, as one that is not there, is
// ENOENT.
func (s *Server) resolve(p string) (*export, nfsclient.Handle, error) {
	if !path.IsAbs(p) {
		return nil, "", unix.ENOENT
	}
	p = path.Clean(p)
	var e *export
	var rest string
	for _, x := range s.exports {
		if r, ok := below(x.Path, p); ok && (e == nil || len(x.Path) > len(e.Path)) {
			e, rest = x, r
		}
	}
	if e == nil {
		return nil, "", unix.ENOENT
	}
	e = s.mounted(e)
	n := e.tree.Root()
	release := func() {}
	defer func() { release() }()
	var self vfs.Cred // the server's own: whether a user may come here is for later calls
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		var st vfs.Stat
		next, err := e.tree.Lookup(&self, n, name, &st)
		if err != nil {
			return nil, "", err
		}
		release()
		n, release = next, func() { e.tree.Put(next) }
	}
	if !n.IsDir() {
		return nil, "", unix.ENOTDIR
	}
	return e, nfsclient.Handle(n.Handle()), nil
}

// below is p relative to dir, both clean, if it is at or under it.
func below(dir, p string) (string, bool) {
	if p == dir {
		return "", true
	}
	return strings.CutPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// servePortmap answers as much of the port mapper (RFC 1833 section 3) as tells
// where NFS, MOUNT and NLM are: here.
func (s *Server) servePortmap(q *transport.Request) transport.AcceptStat {
	switch q.Proc {
	case wire.PortmapNull:
		return transport.Success
	case wire.PortmapGetPort:
		a, ok := args[wire.GetPortArgs](q)
		if !ok {
			return transport.GarbageArgs
		}
		var res wire.GetPortRes
		companion := a.Program == wire.MountProgram || a.Program == nlm.Program
		if (a.Program == wire.NFSProgram || companion && s.cfg.Versions&V3 != 0) && a.Proto == wire.ProtoTCP {
			if tcp := s.Addrs("tcp"); len(tcp) > 0 {
				res.Port = uint32(tcp[0].Port())
			}
		}
		res.Append(q.Reply)
		return transport.Success
	}
	return transport.ProcUnavail
}
