package fs

import (
	"context"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// GetAttr answers stat(2) and fstat(2).
func (f *FS) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	i, st := f.nodes.get(in.NodeId)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	get := f.cache.GetAttr
	if in.Flags()&fuse.FUSE_GETATTR_FH != 0 {
		// The kernel itself wants to know where the file ends (read, SEEK_END).
		get = f.cache.GetSize
	}
	a, ttl, err := get(ctx, f.creds.ids(&in.InHeader), i)
	if err != nil {
		return errno(err)
	}
	out.SetTimeout(f.attrTTL(i, ttl))
	setAttr(&out.Attr, i.Ino(), &a)
	i.Told(ctx.asked)
	return fuse.OK
}

// SetAttr answers chmod, chown, truncate, utimensat.
func (f *FS) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	i, st := f.nodes.get(in.NodeId)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	a, ttl, err := f.setAttr(ctx, i, in)
	if err != nil {
		return errno(err)
	}
	out.SetTimeout(f.attrTTL(i, ttl))
	setAttr(&out.Attr, i.Ino(), &a)
	i.Told(ctx.asked)
	return fuse.OK
}

// setAttr makes the change, by the open file that the caller has, if any. Who has not
// opened the file must have the right to write to change its size: servers let an owner
// do so without (RFC 1813 section 3.3.2 leaves it to them), and the kernel has asked
// nobody, or only the mode.
func (f *FS) setAttr(ctx context.Context, i *cache.Inode, in *fuse.SetAttrIn) (nfsclient.Attr, time.Duration, error) {
	cr, s := f.cred(&in.InHeader, i), setAttrOf(in)
	if s.GID != nil {
		preferGroup(&cr, *s.GID) // its members may give a file to it
	}
	if fh, ok := in.GetFh(); ok {
		if file, st := f.files.get(fh); st.Ok() && file.Inode() == i {
			return file.SetAttr(ctx, cr, s)
		}
	}
	if s.Size != nil {
		got, err := f.cache.Access(ctx, cr, i, nfsclient.AccessModify)
		if err != nil {
			return nfsclient.Attr{}, 0, err
		}
		if got == 0 {
			return nfsclient.Attr{}, 0, syscall.EACCES
		}
	}
	return f.cache.SetAttr(ctx, cr, i, s)
}

// Access answers access(2) and chdir(2) by what the server grants.
func (f *FS) Access(cancel <-chan struct{}, in *fuse.AccessIn) fuse.Status {
	i, st := f.nodes.get(in.NodeId)
	if !st.Ok() {
		return st
	}
	if in.Mask == fuse.F_OK {
		return fuse.OK
	}
	if f.cache.ReadOnly() && in.Mask&fuse.W_OK != 0 {
		return fuse.EROFS
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	want := accessMask(in.Mask, i.Type() == nfsclient.Directory)
	got, err := f.cache.Access(ctx, f.cred(&in.InHeader, i), i, want)
	if err != nil {
		return errno(err)
	}
	if !granted(got, want) {
		return fuse.EACCES
	}
	return fuse.OK
}

// granted reports whether got covers want. Of the rights that together make up
// writing, a server may leave out those that do not apply to the object.
func granted(got, want nfsclient.AccessMask) bool {
	const write = nfsclient.AccessModify | nfsclient.AccessExtend | nfsclient.AccessDelete
	if want&write != 0 && got&(nfsclient.AccessModify|nfsclient.AccessExtend) == 0 {
		return false
	}
	return want&^write&^got == 0
}

// StatFs answers statfs(2).
func (f *FS) StatFs(cancel <-chan struct{}, h *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	i, st := f.nodes.get(h.NodeId)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, h)
	defer ctx.end()
	s, err := f.cache.StatFS(ctx, f.creds.ids(h), i)
	if err != nil {
		return errno(err)
	}
	const block = 4096 // NFS counts bytes, statfs blocks
	*out = fuse.StatfsOut{
		Blocks:  s.TotalBytes / block,
		Bfree:   s.FreeBytes / block,
		Bavail:  s.AvailBytes / block,
		Files:   s.TotalFiles,
		Ffree:   s.AvailFiles, // as Linux's client
		Bsize:   block,
		Frsize:  block,
		NameLen: s.NameMax,
	}
	return fuse.OK
}
