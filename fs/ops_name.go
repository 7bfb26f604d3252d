package fs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// Lookup resolves a name. The reply to one that is known not to exist is an entry
// without a node, which the kernel may cache (a negative dentry).
func (f *FS) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if name == "." || name == ".." {
		return f.lookupNode(cancel, h, name == "..", out)
	}
	dir, st := f.nodes.get(h.NodeId)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, h)
	defer ctx.end()
	cr := f.cred(h, dir)
	e, err := f.cache.Lookup(ctx, cr, dir, name)
	if s, ok := nfsclient.StatusOf(err); ok && s == nfsclient.ErrNoEnt {
		if ttl := f.entryTTL(e.EntryTTL); ttl > 0 {
			*out = fuse.EntryOut{}
			out.SetEntryTimeout(ttl)
			return fuse.OK
		}
	}
	if err != nil {
		return f.mountPaths.lookupStatus(f.Device(), name, errno(err))
	}
	if f.cfg.judges() && opensUnasked(e.Inode.Type()) {
		return f.lookupSpecial(ctx, cr, e, out)
	}
	f.setEntry(ctx, e, out)
	return fuse.OK
}

// Forget drops lookups of a node.
func (f *FS) Forget(nodeid, nlookup uint64) {
	f.requests.add(opForget)
	f.nodes.forget(nodeid, nlookup)
}

// made replies to an operation that made a file.
func (f *FS) made(ctx *opContext, e cache.Entry, err error, out *fuse.EntryOut) fuse.Status {
	if err != nil {
		return errno(err)
	}
	f.setEntry(ctx, e, out)
	return fuse.OK
}

// permissions are those of a file to be made.
func permissions(mode, umask uint32) nfsclient.SetAttr {
	m := mode & 0o7777
	return nfsclient.SetAttr{Mode: &m, Umask: umask}
}

// Mknod makes a regular file, device, socket or FIFO.
func (f *FS) Mknod(cancel <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	dir, st := f.nodes.get(in.NodeId)
	if !st.Ok() {
		return st
	}
	kind, ok := typeOfMode(in.Mode)
	if in.Mode&syscall.S_IFMT == 0 {
		kind, ok = nfsclient.Regular, true
	}
	if !ok || kind == nfsclient.Directory || kind == nfsclient.SymbolicLink {
		return fuse.EINVAL
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	cr := f.cred(&in.InHeader, dir)
	s := permissions(f.newMode(ctx, cr, dir, in.Mode, in.Umask))
	e, err := f.cache.Mknod(ctx, cr, dir, name, kind, decodeDevice(in.Rdev), s)
	return f.made(ctx, e, err, out)
}

// Mkdir makes a directory.
func (f *FS) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	dir, st := f.nodes.get(in.NodeId)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	cr := f.cred(&in.InHeader, dir)
	e, err := f.cache.Mkdir(ctx, cr, dir, name, permissions(f.newMode(ctx, cr, dir, in.Mode, in.Umask)))
	return f.made(ctx, e, err, out)
}

// Symlink makes a symbolic link called name.
func (f *FS) Symlink(cancel <-chan struct{}, h *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	dir, st := f.nodes.get(h.NodeId)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, h)
	defer ctx.end()
	e, err := f.cache.Symlink(ctx, f.cred(h, dir), dir, name, target, permissions(0o777, 0))
	return f.made(ctx, e, err, out)
}

// Link gives a file a further name.
func (f *FS) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	dir, st := f.nodes.get(in.NodeId)
	if !st.Ok() {
		return st
	}
	file, st := f.nodes.get(in.Oldnodeid)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	cr := f.cred(&in.InHeader, file, dir)
	if st := f.mayLink(ctx, cr, file); !st.Ok() {
		return st
	}
	e, err := f.cache.Link(ctx, cr, file, dir, name)
	return f.made(ctx, e, err, out)
}

// Unlink removes a name of a file.
func (f *FS) Unlink(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	dir, st := f.nodes.get(h.NodeId)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, h)
	defer ctx.end()
	return errno(f.cache.Unlink(ctx, f.cred(h, dir), dir, name))
}

// Rmdir removes an empty directory.
func (f *FS) Rmdir(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	dir, st := f.nodes.get(h.NodeId)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, h)
	defer ctx.end()
	return errno(f.cache.Rmdir(ctx, f.cred(h, dir), dir, name))
}

// Rename moves a name. NFS has no exchange and no atomic no-replace.
func (f *FS) Rename(cancel <-chan struct{}, in *fuse.RenameIn, oldName, newName string) fuse.Status {
	if in.Flags != 0 {
		return fuse.EINVAL
	}
	from, st := f.nodes.get(in.NodeId)
	if !st.Ok() {
		return st
	}
	to, st := f.nodes.get(in.Newdir)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	return errno(f.cache.Rename(ctx, f.cred(&in.InHeader, from, to), from, oldName, to, newName))
}

// Readlink returns a symbolic link's target.
func (f *FS) Readlink(cancel <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	i, st := f.nodes.get(h.NodeId)
	if !st.Ok() {
		return nil, st
	}
	ctx := f.begin(cancel, h)
	defer ctx.end()
	target, err := f.cache.Readlink(ctx, f.cred(h, i), i)
	return []byte(target), errno(err)
}
