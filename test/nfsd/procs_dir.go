package nfsd

import (
	"sync"
	"unsafe"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
	"github.com/rdmafs/rdmafs/transport"
)

// tooSmall: not even one entry fits.
type tooSmall struct{}

func (tooSmall) Error() string { return "no room for an entry" }

// listing is the part of a directory that one call returns.
type listing struct {
	res   wire.ReadDirRes
	names []byte // backs the entries' names
}

var listings = sync.Pool{New: func() any { return new(listing) }}

// maxKept is the names that a pooled listing may keep.
const maxKept = 1 << 20

// name keeps a borrowed name. Earlier ones stay where they are when names
// grows.
func (l *listing) name(b string) string {
	at := len(l.names)
	l.names = append(l.names, b...)
	return unsafe.String(&l.names[at], len(b))
}

func (l *listing) put() {
	if cap(l.names) > maxKept {
		return
	}
	clear(l.res.Entries)
	*l = listing{res: wire.ReadDirRes{Entries: l.res.Entries[:0]}, names: l.names[:0]}
	listings.Put(l)
}

// The bytes of READDIR3resok and READDIRPLUS3resok besides entries, with
// attributes: what a client's count covers, which leaves out the status.
const listHead = wire.ReadDirOverhead - 4

// readdir is READDIR (RFC 1813 section 3.3.16).
func (s *Server) readdir(q *transport.Request) transport.AcceptStat {
	a, ok := args[wire.ReadDirArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	return s.list(q, false, a.Dir, a.Cookie, a.Verifier, a.Count, a.Count)
}

// readdirplus is READDIRPLUS (section 3.3.17).
func (s *Server) readdirplus(q *transport.Request) transport.AcceptStat {
	a, ok := args[wire.ReadDirPlusArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	return s.list(q, true, a.Dir, a.Cookie, a.Verifier, a.MaxCount, a.DirCount)
}

func (s *Server) list(q *transport.Request, plus bool, h nfsclient.Handle, cookie uint64, verf nfsclient.Verifier, count, dirCount uint32) transport.AcceptStat {
	l := listings.Get().(*listing)
	defer l.put()
	res := &l.res
	res.Plus = plus
	f, err := s.get(q, h)
	if err == nil {
		defer f.put()
		var st vfs.Stat
		if err = f.e.tree.Stat(f.n, &st); err == nil {
			err = s.fill(q, f, l, &st, cookie, verf, int(min(count, uint32(s.cfg.MaxIO))), int(dirCount))
		}
		f.e.post(&res.Dir, &st)
	}
	if res.Status = statusOf(err); err == (tooSmall{}) {
		res.Status = nfsclient.ErrTooSmall
	}
	res.Append(q.Reply)
	return transport.Success
}

// cookieVerf stands for the way cookies are made: the file system's own offsets,
// good for as long as the directory is.
var cookieVerf = nfsclient.Verifier{'r', 'd', 'm', 'a', 'f', 's', 0, 1}

func (s *Server) fill(q *transport.Request, f file, l *listing, st *vfs.Stat, cookie uint64, verf nfsclient.Verifier, count, dirCount int) error {
	if cookie != 0 && verf != cookieVerf {
		return vfs.ErrBadCookie
	}
	res := &l.res
	res.Verifier = cookieVerf
	left, dirLeft := count-listHead, dirCount
	full := false
	var cst vfs.Stat
	cr := f.e.cred(q)
	eof, err := f.e.tree.ReadDir(&cr, f.n, st, cookie, res.Plus, func(d *vfs.Dirent) bool {
		e := wire.Entry{FileID: d.Ino, Name: d.Name, Cookie: d.Cookie}
		if e.Size(false) > left || len(res.Entries) > 0 && e.DirSize() > dirLeft {
			full = true
			return false
		}
		if res.Plus {
			if h, err := f.e.tree.Child(f.n, d, &cst); err == nil {
				e.Handle = wire.PostHandle{Set: true, Handle: nfsclient.Handle(h)}
				f.e.post(&e.Attr, &cst)
			}
		}
		size := e.Size(res.Plus)
		if size > left {
			full = true
			return false
		}
		e.Name = l.name(d.Name)
		left, dirLeft = left-size, dirLeft-e.DirSize()
		res.Entries = append(res.Entries, e)
		return true
	})
	if err != nil {
		return err
	}
	if full && len(res.Entries) == 0 || left < 0 {
		return tooSmall{}
	}
	res.EOF = eof
	return nil
}
