package cache

import (
	"context"
	"fmt"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// Dir is an open directory. Its methods are called one at a time.
type Dir struct {
	c  *Cache
	i  *Inode
	cr nfsclient.Cred

	verifier nfsclient.Verifier
	part     []Dirent // the last part read
	eof      bool     // nothing lies behind it
	from     uint64   // where part began
	seen     uint64   // how many of the directory's entries end with part
	// end is the cookie behind the last part read, rounds of those since the
	// listing was begun, or went on elsewhere.
	end    uint64
	rounds rounds
}

// rounds finds out whether the cookies of a listing go round in circles, as
// they may with a server that is broken: nobody would ever see its end. It
// remembers one, for twice as long each time, and so sees any circle within
// three times its length.
type rounds struct {
	mark       uint64
	left, span int
}

// add takes the cookie to go on from and tells whether it closes a circle.
func (r *rounds) add(cookie uint64) bool {
	if r.span > 0 && cookie == r.mark {
		return true
	}
	if r.left == 0 {
		r.mark, r.span = cookie, max(1, 2*r.span)
		r.left = r.span
	}
	r.left--
	return false
}

// Offsets of "." and ".." where the server leaves these out. Server cookies
// are passed on as they are; these are unlikely ones that are not negative as
// a signed number.
const (
	dotOff    uint64 = 0x72646d61_2e000001
	dotdotOff uint64 = 0x72646d61_2e2e0002
)

// OpenDir opens a directory for whoever may read it.
func (c *Cache) OpenDir(ctx context.Context, cr nfsclient.Cred, i *Inode) (*Dir, error) {
	if i.typ != nfsclient.Directory {
		return nil, localError("OPENDIR", nfsclient.ErrNotDir)
	}
	// As for files, opening asks the server, so that names cached before a
	// change elsewhere go.
	got, _, err := c.askAccess(ctx, cr, c.user(&cr), i, nfsclient.AccessRead)
	if err != nil {
		return nil, err
	}
	if got&nfsclient.AccessRead == 0 {
		return nil, localError("OPENDIR", nfsclient.ErrAccess)
	}
	i.refs.Add(1)
	return &Dir{c: c, i: i, cr: cr}, nil
}

// Close ends the use of d.
func (d *Dir) Close() {
	if d.i == nil {
		panic("cache: directory closed twice")
	}
	d.i.unpin()
	d.i = nil
}

// Next is a part of the directory behind off, 0 for its start, with "." and
// ".."; none means the end. The result is borrowed until the next call.
func (d *Dir) Next(ctx context.Context, off uint64) ([]Dirent, error) {
	if off != 0 {
		for k := range d.part {
			if d.part[k].Off == off && (k+1 < len(d.part) || d.eof) {
				return d.part[k+1:], nil
			}
		}
	}
	cookie := off
	if off == dotOff || off == dotdotOff {
		cookie = 0
	}
	if cookie == 0 {
		d.verifier, d.seen = nfsclient.Verifier{}, 0
	}
	if cookie == 0 || cookie != d.end {
		d.rounds = rounds{}
	}
	for {
		part, err := d.read(ctx, nfsclient.DirPos{Cookie: cookie, Verifier: d.verifier})
		if s, ok := nfsclient.StatusOf(err); ok && s == nfsclient.ErrBadCookie && cookie != 0 {
			return d.restart(ctx, off)
		}
		if err != nil {
			return nil, err
		}
		if n := len(part.Entries); n > 0 && !part.EOF {
			d.end = part.Entries[n-1].Cookie
			if d.rounds.add(d.end) {
				return nil, fmt.Errorf("%w: directory without end, the cookie %#x again", ErrServer, d.end)
			}
		}
		d.keep(off, part, off == 0)
		if len(d.part) > 0 || d.eof {
			return d.part, nil
		}
		if len(part.Entries) == 0 {
			return nil, ErrServer // neither entries nor the end
		}
		cookie = d.end
	}
}

// keep makes p the last part. first says that it begins the directory and
// needs "." and "..".
func (d *Dir) keep(from uint64, p nfsclient.DirPart, first bool) {
	d.from, d.eof, d.verifier = from, p.EOF, p.Verifier
	d.part = make([]Dirent, 0, len(p.Entries)+2)
	d.seen += uint64(len(p.Entries))
	if first && !hasDots(p.Entries) {
		d.part = append(d.part,
			Dirent{Ino: d.i.ino, Type: nfsclient.Directory, Name: ".", Off: dotOff},
			Dirent{Ino: d.i.ino, Type: nfsclient.Directory, Name: "..", Off: dotdotOff})
	}
	if from == dotOff {
		d.part = append(d.part, Dirent{Ino: d.i.ino, Type: nfsclient.Directory, Name: "..", Off: dotdotOff})
	}
	for k := range p.Entries {
		e := &p.Entries[k]
		out := Dirent{Ino: e.FileID, Name: e.Name, Off: e.Cookie}
		switch {
		case e.Name == "." || e.Name == "..":
			out.Type = nfsclient.Directory
			if e.Name == "." {
				out.Ino = d.i.ino
			}
		case e.Attr != nil:
			out.Type = e.Attr.Type
		}
		d.part = append(d.part, out)
	}
}

func hasDots(l []nfsclient.Dirent) bool {
	for k := range l {
		if l[k].Name == "." {
			return true
		}
	}
	return false
}

// restart reads the directory from its start until behind off, whose cookie
// the server does not know any more. If off itself is gone, as many entries
// are skipped as were seen before it, provided it was the last one read.
func (d *Dir) restart(ctx context.Context, off uint64) ([]Dirent, error) {
	skip := uint64(0)
	if n := len(d.part); n > 0 && d.part[n-1].Off == off {
		skip = d.seen
	}
	d.seen = 0
	pos := nfsclient.DirPos{}
	var behind []nfsclient.Dirent // entries past the count, in case off is gone
	count := uint64(0)
	d.rounds = rounds{}
	for {
		part, err := d.read(ctx, pos)
		if err != nil {
			return nil, err
		}
		for k := range part.Entries {
			if part.Entries[k].Cookie == off {
				d.seen = count + uint64(k) + 1
				part.Entries = part.Entries[k+1:]
				if len(part.Entries) == 0 && !part.EOF {
					d.part, d.verifier = nil, part.Verifier
					return d.Next(ctx, off)
				}
				d.keep(off, part, false)
				return d.part, nil
			}
		}
		count += uint64(len(part.Entries))
		last := pos.Cookie
		if n := len(part.Entries); n > 0 {
			last = part.Entries[n-1].Cookie
		}
		if behind == nil && skip > 0 && count > skip {
			behind = part.Entries[uint64(len(part.Entries))-(count-skip):]
		}
		if part.EOF {
			part.Entries = behind
			d.seen = count - uint64(len(behind))
			d.keep(off, part, false)
			d.eof = len(behind) == 0 || behind[len(behind)-1].Cookie == last
			return d.part, nil
		}
		if len(part.Entries) == 0 || d.rounds.add(last) {
			return nil, ErrServer
		}
		pos = nfsclient.DirPos{Cookie: last, Verifier: part.Verifier}
	}
}

// read reads one part and keeps what it says of names and attributes.
func (d *Dir) read(ctx context.Context, pos nfsclient.DirPos) (nfsclient.DirPart, error) {
	c := d.c
	for {
		plus := !c.noPlus.Load()
		st := c.stamp()
		part, err := c.cl.ReadDir(ctx, d.cr, d.i.h, pos, plus)
		if s, ok := nfsclient.StatusOf(err); plus && ok && s == nfsclient.ErrNotSupp {
			c.noPlus.Store(true)
			continue
		}
		if err != nil {
			d.i.failed(err)
			return part, err
		}
		d.learn(st, &part)
		return part, nil
	}
}

// learn keeps attributes and names of a part, and the inode numbers of files
// that are known.
func (d *Dir) learn(st stamp, p *nfsclient.DirPart) {
	c, dir := d.c, d.i
	kids := make([]*Inode, len(p.Entries))
	for k := range p.Entries {
		e := &p.Entries[k]
		if e.Handle == "" || e.Attr == nil || e.Name == "." || e.Name == ".." {
			continue
		}
		i := c.intern(e.Handle, e.Attr)
		i.mu.Lock()
		i.note(st, e.Attr)
		i.unlock()
		e.FileID = i.ino
		kids[k] = i
	}
	dir.mu.Lock()
	if p.Dir != nil {
		dir.note(st, p.Dir)
	}
	if dir.settled(st, p.Dir) {
		for k, i := range kids {
			if i != nil {
				dir.setName(p.Entries[k].Name, i)
			}
		}
	}
	dir.unlock()
	for _, i := range kids {
		if i != nil {
			i.unpin()
		}
	}
	c.trimNames()
}
