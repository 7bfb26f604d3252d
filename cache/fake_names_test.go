package cache

import (
	"context"
	"sort"

	"github.com/rdmafs/rdmafs/nfsclient"
)

func (f *fake) touchDir(d *fnode) {
	d.attr.Mtime = f.now()
	d.attr.Ctime = d.attr.Mtime
	d.attr.Size = uint64(len(d.entries))
}

func (d *fnode) link(name string, h nfsclient.Handle) {
	d.cookie++
	d.entries = append(d.entries, fentry{name, h, d.cookie + 2})
}

func (f *fake) make(ctx context.Context, op string, dir nfsclient.Handle, name string, kind nfsclient.FileType, s nfsclient.SetAttr, target string) (m nfsclient.Made, err error) {
	err = f.run(ctx, op, func() error {
		d, err := f.node(op, dir)
		if err != nil {
			return err
		}
		m.Dir.Before = d.pre()
		m.Dir.After = d.after()
		if d.find(name) >= 0 {
			return fail(op, nfsclient.ErrExist)
		}
		n := f.add(kind, 0o644)
		if s.Mode != nil {
			n.attr.Mode = *s.Mode
		}
		n.target = target
		d.link(name, n.h)
		f.touchDir(d)
		m.Handle, m.Attr, m.Dir.After = n.h, *n.post(), d.after()
		return nil
	})
	return m, err
}

func (f *fake) Create(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string, s nfsclient.SetAttr, exclusive bool, mode nfsclient.OpenMode) (nfsclient.Made, error) {
	if exclusive {
		f.mu.Lock()
		f.calls["CREATE exclusive"]++
		f.mu.Unlock()
	}
	return f.make(ctx, "CREATE", dir, name, nfsclient.Regular, s, "")
}

func (f *fake) Mkdir(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string, s nfsclient.SetAttr) (nfsclient.Made, error) {
	return f.make(ctx, "MKDIR", dir, name, nfsclient.Directory, s, "")
}

func (f *fake) Symlink(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name, target string, s nfsclient.SetAttr) (nfsclient.Made, error) {
	return f.make(ctx, "SYMLINK", dir, name, nfsclient.SymbolicLink, s, target)
}

func (f *fake) Mknod(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string, kind nfsclient.FileType, dev nfsclient.Device, s nfsclient.SetAttr) (nfsclient.Made, error) {
	return f.make(ctx, "MKNOD", dir, name, kind, s, "")
}

// unlink takes entry k out of d; mu is held.
func (f *fake) unlink(d *fnode, k int) {
	n := f.nodes[d.entries[k].h]
	d.entries = append(d.entries[:k:k], d.entries[k+1:]...)
	if n.attr.Nlink--; n.attr.Nlink == 0 {
		delete(f.nodes, n.h)
	}
	n.attr.Ctime = f.now()
	f.touchDir(d)
}

func (f *fake) Remove(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string) (w nfsclient.Wcc, err error) {
	err = f.run(ctx, "REMOVE", func() error {
		d, err := f.node("REMOVE", dir)
		if err != nil {
			return err
		}
		w.Before = d.pre()
		k := d.find(name)
		if k < 0 {
			return fail("REMOVE", nfsclient.ErrNoEnt)
		}
		f.unlink(d, k)
		w.After = d.after()
		return nil
	})
	return w, err
}

func (f *fake) Rmdir(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string) (w nfsclient.Wcc, err error) {
	err = f.run(ctx, "RMDIR", func() error {
		d, err := f.node("RMDIR", dir)
		if err != nil {
			return err
		}
		w.Before, w.After = d.pre(), d.after()
		k := d.find(name)
		if k < 0 {
			return fail("RMDIR", nfsclient.ErrNoEnt)
		}
		if len(f.nodes[d.entries[k].h].entries) > 0 {
			return fail("RMDIR", nfsclient.ErrNotEmpty)
		}
		f.unlink(d, k)
		w.After = d.after()
		return nil
	})
	return w, err
}

func (f *fake) Rename(ctx context.Context, cr nfsclient.Cred, from nfsclient.Handle, fromName string, to nfsclient.Handle, toName string) (fw, tw nfsclient.Wcc, err error) {
	err = f.run(ctx, "RENAME", func() error {
		a, err := f.node("RENAME", from)
		if err != nil {
			return err
		}
		b, err := f.node("RENAME", to)
		if err != nil {
			return err
		}
		fw.Before, tw.Before = a.pre(), b.pre()
		k := a.find(fromName)
		if k < 0 {
			return fail("RENAME", nfsclient.ErrNoEnt)
		}
		h := a.entries[k].h
		if old := b.find(toName); old >= 0 {
			if b.entries[old].h == h {
				return nil
			}
			if len(f.nodes[b.entries[old].h].entries) > 0 {
				return fail("RENAME", nfsclient.ErrNotEmpty)
			}
			f.unlink(b, old)
			k = a.find(fromName)
		}
		a.entries = append(a.entries[:k:k], a.entries[k+1:]...)
		b.link(toName, h)
		f.nodes[h].attr.Ctime = f.now()
		f.touchDir(a)
		if b != a {
			f.touchDir(b)
		}
		fw.After, tw.After = a.after(), b.after()
		return nil
	})
	return fw, tw, err
}

func (f *fake) Link(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, dir nfsclient.Handle, name string) (a *nfsclient.Attr, w nfsclient.Wcc, err error) {
	err = f.run(ctx, "LINK", func() error {
		n, err := f.node("LINK", h)
		if err != nil {
			return err
		}
		d, err := f.node("LINK", dir)
		if err != nil {
			return err
		}
		w.Before = d.pre()
		if d.find(name) >= 0 {
			return fail("LINK", nfsclient.ErrExist)
		}
		d.link(name, h)
		n.attr.Nlink++
		n.attr.Ctime = f.now()
		f.touchDir(d)
		a, w.After = n.post(), d.after()
		return nil
	})
	return a, w, err
}

func (f *fake) ReadDir(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, from nfsclient.DirPos, plus bool) (p nfsclient.DirPart, err error) {
	op := "READDIR"
	if plus {
		op = "READDIRPLUS"
	}
	err = f.run(ctx, op, func() error {
		d, err := f.node(op, dir)
		if err != nil {
			return err
		}
		if from.Cookie != 0 && f.badDirs > 0 {
			f.badDirs--
			return fail(op, nfsclient.ErrBadCookie)
		}
		p.Dir = d.post()
		for k, name := range []string{".", ".."} {
			if f.dots && from.Cookie <= uint64(k) {
				p.Entries = append(p.Entries, nfsclient.Dirent{FileID: d.attr.FileID, Name: name, Cookie: uint64(k) + 1})
			}
		}
		k := sort.Search(len(d.entries), func(k int) bool { return d.entries[k].cookie > from.Cookie })
		for ; k < len(d.entries) && len(p.Entries) < f.part; k++ {
			n := f.nodes[d.entries[k].h]
			e := nfsclient.Dirent{FileID: n.attr.FileID, Name: d.entries[k].name, Cookie: d.entries[k].cookie}
			if plus && !f.noPlus {
				e.Handle, e.Attr = n.h, n.post()
			}
			if f.jump[1] != 0 && e.Cookie == f.jump[1] {
				e.Cookie = f.jump[0]
			}
			p.Entries = append(p.Entries, e)
		}
		p.EOF = k == len(d.entries)
		return nil
	})
	return p, err
}
