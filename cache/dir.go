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

	held listing
	// again: held is of the opening before, and as good as read now.
	again bool
	last  reading // of the part that was read last

	// given is where the reader was left, 0 if that is unknown; ahead is the part that is
	// read ahead, or nil; wasted: one was of no use.
	given  uint64
	ahead  *aheadPart
	wasted bool

	// in is the part that the last result came from, rounds is of the cookies
	// behind the parts since the listing was begun or went on elsewhere.
	in     *dirPart
	rounds rounds
}

// rounds detects a cycle in the cookies of a listing, which a broken server may
// return: the listing would never end. It remembers one cookie, for twice as long
// each time, and so finds a cycle within three times its length.
type rounds struct {
	mark       uint64
	left, span int
}

// add takes the next cookie and reports whether it closes a cycle.
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

// Offsets of "." and ".." if the server leaves these out. The server's cookies are
// passed on as they are; these are unlikely ones that are not negative as a signed
// number.
const (
	dotOff    uint64 = 0x72646d61_2e000001
	dotdotOff uint64 = 0x72646d61_2e2e0002
)

// OpenDir opens a directory, if the user may read it.
func (c *Cache) OpenDir(ctx context.Context, cr nfsclient.Cred, i *Inode) (*Dir, error) {
	if i.typ != nfsclient.Directory {
		return nil, localError("OPENDIR", nfsclient.ErrNotDir)
	}
	// As for files, opening revalidates, so that names cached before a change
	// elsewhere are dropped.
	got, fresh, err := c.askAccess(ctx, cr, c.user(&cr), i, nfsclient.AccessRead)
	if err != nil {
		return nil, err
	}
	if got&nfsclient.AccessRead == 0 {
		return nil, localError("OPENDIR", nfsclient.ErrAccess)
	}
	i.refs.Add(1)
	d := &Dir{c: c, i: i, cr: cr, held: listing{all: &c.listed}}
	if fresh {
		if l, ok := c.takeListing(i); ok {
			d.held, d.again = l, true
		}
	}
	return d, nil
}

// Close ends the use of d.
func (d *Dir) Close() {
	if d.i == nil {
		panic("cache: directory closed twice")
	}
	d.c.keepListing(d.i, &d.held)
	d.i.unpin()
	d.i = nil
}

// Next is a part of the directory behind off, 0 for its start, with "." and "..",
// and none at the end. What was read before is not read again, except for off 0:
// rewinddir(3) wants the directory as it is now. The result is valid until the next
// call.
func (d *Dir) Next(ctx context.Context, off uint64) ([]Dirent, error) {
	readsOn := off != 0 && off == d.given
	d.given = 0
	if off == 0 {
		if !d.again {
			d.held.reset()
		}
		d.ahead, d.wasted = nil, false
	}
	d.again = false
	if off == 0 || d.in == nil || !d.in.has(off) {
		d.in, d.rounds = nil, rounds{}
	}
	p, list, ok := d.held.behind(off)
	if !ok {
		var err error
		if p, err = d.fetch(ctx, off); err != nil {
			return nil, err
		}
		list = p.list
	}
	if err := d.enter(p, list); err != nil {
		return nil, err
	}
	if readsOn {
		d.readAhead(p)
	}
	return list, nil
}

// fetch is the part behind off, which is not held.
func (d *Dir) fetch(ctx context.Context, off uint64) (*dirPart, error) {
	cookie := off
	if off == dotOff || off == dotdotOff {
		cookie = 0
	}
	var v nfsclient.Verifier
	if cookie != 0 {
		v = d.held.verifier
	}
	part, ok, err := d.takeAhead(ctx, off)
	if !ok && err == nil {
		part, err = d.read(ctx, nfsclient.DirPos{Cookie: cookie, Verifier: v})
	}
	if s, ok := nfsclient.StatusOf(err); ok && s == nfsclient.ErrBadCookie && cookie != 0 {
		return d.restart(ctx, off)
	}
	if err != nil {
		return nil, err
	}
	if len(part.Entries) == 0 && !part.EOF {
		return nil, ErrServer // neither entries nor the end
	}
	seen := uint64(len(part.Entries))
	if cookie != 0 {
		if n := d.held.before(off); n > 0 {
			seen += n
		} else {
			seen = 0
		}
	}
	return d.keep(off, part, seen), nil
}

// Held is Next if that needs no call to the server, else nothing.
func (d *Dir) Held(off uint64) []Dirent {
	p, list, ok := d.held.behind(off)
	if !ok || d.enter(p, list) != nil {
		return nil
	}
	return list
}

// Known is Lookup of a name for who has opened d, if that needs no call to the server and
// the name exists.
func (d *Dir) Known(name string) (Entry, bool) {
	e, err, ok := d.c.lookupCached(&d.cr, d.i, name, true)
	return e, ok && err == nil
}

// enter makes p the part in use, unless the cookies form a cycle.
func (d *Dir) enter(p *dirPart, list []Dirent) error {
	if p == d.in && len(list) < len(p.list) {
		return nil
	}
	if !p.eof && d.rounds.add(p.last()) {
		return fmt.Errorf("%w: directory without end, the cookie %#x again", ErrServer, p.last())
	}
	d.in = p
	return nil
}

// keep makes what was read behind from a part of the listing, with "." and ".." if
// it begins the directory and the server leaves them out.
func (d *Dir) keep(from uint64, p nfsclient.DirPart, seen uint64) *dirPart {
	part := &dirPart{from: from, eof: p.EOF, seen: seen, reading: d.last, list: make([]Dirent, 0, len(p.Entries)+2)}
	if from == 0 && !hasDots(p.Entries) {
		part.list = append(part.list, Dirent{Ino: d.i.ino, Type: nfsclient.Directory, Name: ".", Off: dotOff})
	}
	if from == dotOff || len(part.list) > 0 {
		part.list = append(part.list, Dirent{Ino: d.i.ino, Type: nfsclient.Directory, Name: "..", Off: dotdotOff})
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
		part.list = append(part.list, out)
	}
	d.held.add(part, p.Verifier)
	return part
}

func hasDots(l []nfsclient.Dirent) bool {
	for k := range l {
		if l[k].Name == "." {
			return true
		}
	}
	return false
}

// restart reads the directory from its start to behind off, whose cookie the server
// no longer knows. If off itself is gone, as many entries are skipped as were seen
// before it, provided that a part ended with it.
func (d *Dir) restart(ctx context.Context, off uint64) (*dirPart, error) {
	skip := d.held.before(off)
	d.held.reset()
	d.in, d.rounds = nil, rounds{}
	var seen rounds
	var behind []nfsclient.Dirent // entries past the count, in case off is gone
	count, found := uint64(0), false
	for pos := (nfsclient.DirPos{}); ; {
		part, err := d.read(ctx, pos)
		if err != nil {
			return nil, err
		}
		n := uint64(len(part.Entries))
		if n == 0 && !part.EOF {
			return nil, ErrServer
		}
		last := pos.Cookie
		if n > 0 {
			last = part.Entries[n-1].Cookie
		}
		for k := range part.Entries {
			if part.Entries[k].Cookie == off && !found {
				found = true
				part.Entries = part.Entries[k+1:]
				break
			}
		}
		count += n
		if found && (len(part.Entries) > 0 || part.EOF) {
			return d.keep(off, part, count), nil
		}
		if behind == nil && skip > 0 && count > skip {
			behind = part.Entries[n-(count-skip):]
		}
		if part.EOF {
			part.Entries = behind
			part.EOF = len(behind) == 0 || behind[len(behind)-1].Cookie == last
			return d.keep(off, part, min(count, skip+uint64(len(behind)))), nil
		}
		if seen.add(last) {
			return nil, fmt.Errorf("%w: directory without end, the cookie %#x again", ErrServer, last)
		}
		pos = nfsclient.DirPos{Cookie: last, Verifier: part.Verifier}
	}
}

// read reads one part and keeps what it says of names and attributes.
func (d *Dir) read(ctx context.Context, pos nfsclient.DirPos) (part nfsclient.DirPart, err error) {
	part, d.last, err = d.c.readPart(ctx, d.cr, d.i, pos)
	return part, err
}

// readPart is Dir.read. It says when the part was read, too.
func (c *Cache) readPart(ctx context.Context, cr nfsclient.Cred, dir *Inode, pos nfsclient.DirPos) (nfsclient.DirPart, reading, error) {
	r := reading{at: c.stamp()}
	part, err := c.cl.ReadDir(ctx, cr, dir.h, pos, true)
	if err != nil {
		dir.failed(err)
		return part, r, err
	}
	if r.agreed = c.learn(dir, r.at, &part); r.agreed {
		r.change = part.Dir.Change
	}
	return part, r, nil
}

// learn caches the attributes and names of a part, and sets the inode numbers of
// files that are known. It reports whether they are of the directory's known state.
func (c *Cache) learn(dir *Inode, st stamp, p *nfsclient.DirPart) (agreed bool) {
	kids := make([]*Inode, len(p.Entries))
	for k := range p.Entries {
		e := &p.Entries[k]
		if e.Handle == "" || e.Attr == nil || e.Name == "." || e.Name == ".." {
			continue
		}
		i := c.intern(e.Handle, e.Attr)
		i.mu.Lock()
		i.note(st, e.Attr)
		i.mu.Unlock()
		e.FileID = i.ino
		kids[k] = i
	}
	dir.mu.Lock()
	if p.Dir != nil {
		dir.note(st, p.Dir)
	}
	if agreed = dir.namesAgree(st, p.Dir); agreed {
		for k, i := range kids {
			if i != nil {
				dir.learnName(p.Entries[k].Name, i)
			}
		}
	}
	dir.mu.Unlock()
	for _, i := range kids {
		if i != nil {
			i.unpin()
		}
	}
	c.trimNames()
	return agreed
}
