package v4

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
)

// cookieVerf stands for the way cookies are made: the file system's own offsets, good for as long as
// the directory is.
var cookieVerf = nfsclient.Verifier{'r', 'd', 'm', 'a', 'f', 's', 0, 4}

// firstCookie is what is added to offsets: 0 is the start, and 1 and 2 are not to be used (RFC 8881
// section 18.23.3).
const firstCookie = 3

const (
	// listHead is READDIR4resok without entries.
	listHead = 8 + 4 + 4
	// entryHead is entry4 without name and attributes.
	entryHead = 4 + 8 + 4
)

// listing is the entries of a READDIR that is being answered.
type listing struct {
	c             *call
	want          wire.Bitmap
	left, dirLeft int
	entries       int
	full          bool
	failed        wire.Status
	scratch       wire.GetAttr
	needs         bool // attributes beyond the number
}

// readDir is READDIR. It encodes its results itself, into c.raw.
func (c *call) readDir(a *wire.ReadDir) wire.Status {
	if st := inDirectory(c.cur); st != wire.OK {
		return st
	}
	switch {
	case !a.Want.And(setOnly).Empty():
		return nfsclient.ErrInval
	case a.Cookie > 0 && a.Cookie < firstCookie:
		return nfsclient.ErrBadCookie
	case a.Cookie != 0 && a.Verifier != cookieVerf:
		return wire.ErrNotSame
	}
	l := &listing{c: c, want: a.Want.And(supported(c.comp.Minor)), dirLeft: int(min(a.DirCount, uint32(c.s.cfg.MaxIO)))}
	l.left = min(int(min(a.MaxCount, uint32(c.s.cfg.MaxIO))), c.room()) - listHead
	if l.dirLeft == 0 {
		l.dirLeft = l.left
	}
	l.needs = !l.want.Without(wire.BitmapOf(wire.AttrRdattrError, wire.AttrFileID, wire.AttrMountedOnFileID)).Empty()
	c.raw.Truncate(0)
	c.raw.Fixed(cookieVerf[:])
	offset := uint64(0)
	if a.Cookie != 0 {
		offset = a.Cookie - firstCookie
	}
	var eof bool
	var st wire.Status
	if d := c.cur.dir; d != nil {
		eof, st = l.pseudo(d, offset, a.Cookie != 0)
	} else {
		eof, st = l.files(c.cur, offset)
	}
	switch {
	case st != wire.OK:
		return st
	case l.failed != wire.OK:
		return l.failed
	case l.full && l.entries == 0 || l.left < 0:
		return nfsclient.ErrTooSmall
	}
	c.raw.Bool(false)
	c.raw.Bool(eof)
	return wire.OK
}

// pseudo lists a directory of the pseudo file system. An offset is the index of an entry.
func (l *listing) pseudo(d *dir, offset uint64, behind bool) (eof bool, st wire.Status) {
	from := uint64(0)
	if behind {
		from = offset + 1
	}
	for i := from; i < uint64(len(d.children)); i++ {
		sub := d.children[i]
		o := l.c.s.ns.at(sub)
		ok := l.add(i, sub.name, func(a *wire.Attrs) wire.Status { return l.c.attrsOf(o, l.want, a) }, sub.fileid)
		if !ok {
			return false, wire.OK
		}
	}
	return true, wire.OK
}

// files lists a directory of an export.
func (l *listing) files(o object, offset uint64) (eof bool, st wire.Status) {
	t := o.ex.Tree
	var dst, fs vfs.Stat
	if err := t.Stat(o.node, &dst); err != nil {
		return false, statusOf(err)
	}
	cr := l.c.cred(o.ex)
	eof, err := t.ReadDir(&cr, o.node, &dst, offset, true, func(d *vfs.Dirent) bool {
		if d.Name == "." || d.Name == ".." {
			return true
		}
		return l.add(d.Cookie, d.Name, func(a *wire.Attrs) wire.Status { return l.entry(o, d, &fs, a) }, d.Ino)
	})
	return eof, statusOf(err)
}

// entry fills in the attributes of an entry of a directory of an export.
func (l *listing) entry(dir object, d *vfs.Dirent, fs *vfs.Stat, a *wire.Attrs) wire.Status {
	*a = wire.Attrs{Mask: l.want}
	a.FileID, a.MountedOnFileID = d.Ino, d.Ino
	if !l.needs {
		return wire.OK
	}
	h, err := dir.ex.Tree.Child(dir.node, d, fs)
	if err != nil {
		return statusOf(err)
	}
	if in, ok := l.c.s.ns.crossed(dir.ex, h); ok {
		return l.c.attrsOf(in, l.want, a)
	}
	fs.Changes = dir.ex.Tree.ChangesOf(h)
	l.c.common(a)
	st := l.c.fileAttrs(object{ex: dir.ex}, fs, a)
	a.Filehandle = nfsclient.Handle(h)
	return st
}

// add encodes an entry; false if there is no room for it, or the listing has failed.
func (l *listing) add(offset uint64, name string, attrs func(*wire.Attrs) wire.Status, fileid uint64) bool {
	dirSize := entryHead + (len(name)+3)&^3
	if l.entries > 0 && dirSize > l.dirLeft {
		l.full = true
		return false
	}
	switch st := attrs(&l.scratch.Attrs); {
	case st == wire.OK:
	case st == nfsclient.ErrNoEnt || st == nfsclient.ErrStale:
		return true // it has gone since
	case l.want.Has(wire.AttrRdattrError):
		l.scratch.Attrs = wire.Attrs{Mask: l.want.And(wire.BitmapOf(wire.AttrRdattrError, wire.AttrMountedOnFileID)), RdattrError: st, MountedOnFileID: fileid}
	default:
		l.failed = st
		return false
	}
	w := &l.c.raw
	at := len(w.Bytes())
	w.Bool(true)
	w.Uint64(offset + firstCookie)
	w.String(name)
	l.scratch.AppendRes(w, wire.OK)
	if size := len(w.Bytes()) - at; size <= l.left {
		l.left -= size
		l.dirLeft -= dirSize
		l.entries++
		return true
	}
	w.Truncate(at)
	l.full = true
	return false
}
