package fs

import (
	"context"
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// Access control lists are the only extended attributes that NFSv3 can carry, with NFSACL.
// NFSv4.2 carries those of users.
// FUSE_POSIX_ACL is not asked for: it has the kernel check permissions, which are the
// server's affair. Without it, the kernel asks for the lists as for any extended attribute.
const (
	accessACL  = "system.posix_acl_access"
	defaultACL = "system.posix_acl_default"
)

// noXattrs ends the kernel's asking for the life of the mount.
const noXattrs = fuse.ENOSYS

// isACL reports whether a name is that of a list, and of which.
func isACL(name string) (isDefault, ok bool) {
	return name == defaultACL, name == accessACL || name == defaultACL
}

// GetXAttr returns an access control list. Before it lets a file be written to, the kernel
// asks for security.capability too, which costs no call.
func (f *FS) GetXAttr(cancel <-chan struct{}, h *fuse.InHeader, name string, dest []byte) (uint32, fuse.Status) {
	if user, ok := f.userXattr(name); ok {
		return f.getUserXattr(cancel, h, user, dest)
	}
	if f.lacksXattrs() {
		return 0, noXattrs
	}
	if name == nfs4ACL && f.cache.NFS4ACLs() {
		return f.getNFS4ACL(cancel, h, dest)
	}
	isDefault, ok := isACL(name)
	if !ok || !f.cache.ACLs() {
		return 0, fuse.Status(syscall.EOPNOTSUPP)
	}
	acl, st := f.acl(cancel, h)
	if !st.Ok() {
		return 0, st
	}
	l := acl.Access
	if isDefault {
		l = acl.Default
	}
	if len(l) == 0 {
		return 0, fuse.ENOATTR
	}
	return copyXattr(dest, nfsclient.AppendACLXattr(nil, l))
}

// acl is what the server says of a request's file.
func (f *FS) acl(cancel <-chan struct{}, h *fuse.InHeader) (nfsclient.ACL, fuse.Status) {
	i, st := f.nodes.get(h.NodeId)
	if !st.Ok() {
		return nfsclient.ACL{}, st
	}
	ctx := f.begin(cancel, h)
	defer ctx.end()
	acl, err := f.cache.ACL(ctx, f.creds.ids(h), i)
	return acl, aclErrno(err)
}

func aclErrno(err error) fuse.Status {
	if errors.Is(err, nfsclient.ErrNotSupported) {
		return fuse.Status(syscall.EOPNOTSUPP)
	}
	return errno(err)
}

// copyXattr copies a value to dest. ERANGE, with the length, says that it does not fit;
// that is also how a caller without a buffer learns the length.
func copyXattr(dest, value []byte) (uint32, fuse.Status) {
	if len(value) > len(dest) {
		return uint32(len(value)), fuse.ERANGE
	}
	return uint32(copy(dest, value)), fuse.OK
}

// ListXAttr names the lists that a file has.
func (f *FS) ListXAttr(cancel <-chan struct{}, h *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	if f.lacksXattrs() {
		return 0, noXattrs
	}
	names, st := f.listUserXattrs(cancel, h)
	if !st.Ok() {
		return 0, st
	}
	if f.cache.NFS4ACLs() {
		names = append(names, nfs4ACL+"\x00"...)
	}
	if !f.cache.ACLs() {
		return copyXattr(dest, names)
	}
	acl, st := f.acl(cancel, h)
	if st == fuse.Status(syscall.EOPNOTSUPP) {
		return copyXattr(dest, names)
	}
	if !st.Ok() {
		return 0, st
	}
	if len(acl.Access) > 0 {
		names = append(names, accessACL+"\x00"...)
	}
	if len(acl.Default) > 0 {
		names = append(names, defaultACL+"\x00"...)
	}
	return copyXattr(dest, names)
}

// SetXAttr sets an access control list or an attribute of users.
func (f *FS) SetXAttr(cancel <-chan struct{}, in *fuse.SetXAttrIn, name string, value []byte) fuse.Status {
	if user, ok := f.userXattr(name); ok {
		return f.setUserXattr(cancel, in, user, value)
	}
	if name == nfs4ACL && f.cache.NFS4ACLs() {
		return f.setNFS4ACL(cancel, &in.InHeader, value)
	}
	l, ok := nfsclient.ParseACLXattr(value)
	if _, acl := isACL(name); acl && !ok {
		return fuse.EINVAL
	}
	return f.setACL(cancel, &in.InHeader, name, l)
}

// RemoveXAttr takes an access control list or an attribute of users away.
func (f *FS) RemoveXAttr(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	if user, ok := f.userXattr(name); ok {
		return f.removeUserXattr(cancel, h, user)
	}
	return f.setACL(cancel, h, name, nil)
}

func (f *FS) setACL(cancel <-chan struct{}, h *fuse.InHeader, name string, l []nfsclient.ACE) fuse.Status {
	if f.lacksXattrs() {
		return noXattrs
	}
	isDefault, ok := isACL(name)
	if !ok || !f.cache.ACLs() {
		return fuse.Status(syscall.EOPNOTSUPP)
	}
	i, st := f.nodes.get(h.NodeId)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, h)
	defer ctx.end()
	if err := f.cache.SetACL(ctx, f.cred(h, i), i, isDefault, l); err != nil {
		return aclErrno(err)
	}
	// The mode has changed with the list, unseen by the kernel. Data stays, so that this
	// waits for no page.
	f.server.InodeNotify(h.NodeId, -1, 0)
	return fuse.OK
}

// newMode is the mode to ask for when a file is made in dir, and the umask that is the server's affair. The kernel
// leaves the umask to us if there are access control lists: one that the file inherits stands in its place.
func (f *FS) newMode(ctx context.Context, cr nfsclient.Cred, dir *cache.Inode, mode, umask uint32) (asked, umasked uint32) {
	if mode&umask&0o777 == 0 {
		return mode, 0
	}
	if f.cache.Umask() {
		return mode, umask & 0o777
	}
	if !f.cache.ACLs() {
		return mode, 0
	}
	if acl, err := f.cache.ACL(ctx, cr, dir); err == nil && len(acl.Default) > 0 {
		return mode, 0
	}
	return mode &^ umask, 0
}
