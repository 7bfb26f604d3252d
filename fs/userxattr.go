package fs

import (
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// userPrefix is the namespace of setxattr(2) that RFC 8276 carries, without the prefix.
const userPrefix = "user."

// Flags of setxattr(2).
const (
	xattrCreate  = 1
	xattrReplace = 2
)

// lacksXattrs reports whether no file of the mount can have extended attributes.
func (f *FS) lacksXattrs() bool { return !f.cache.ACLs() && !f.cache.Xattrs() && !f.cache.NFS4ACLs() }

// userXattr is the name that the server has for an attribute of users, if it can have any.
func (f *FS) userXattr(name string) (string, bool) {
	if !f.cache.Xattrs() {
		return "", false
	}
	return strings.CutPrefix(name, userPrefix)
}

func (f *FS) getUserXattr(cancel <-chan struct{}, h *fuse.InHeader, name string, dest []byte) (uint32, fuse.Status) {
	if name == "" {
		return 0, fuse.EINVAL
	}
	i, st := f.nodes.get(h.NodeId)
	if !st.Ok() {
		return 0, st
	}
	ctx := f.begin(cancel, h)
	defer ctx.end()
	v, err := f.cache.GetXattr(ctx, f.cred(h, i), i, name)
	if err != nil {
		return 0, errno(err)
	}
	return copyXattr(dest, v)
}

// listUserXattrs is the names, each ended by a zero; none where the file system has none.
func (f *FS) listUserXattrs(cancel <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	if !f.cache.Xattrs() {
		return nil, fuse.OK
	}
	i, st := f.nodes.get(h.NodeId)
	if !st.Ok() {
		return nil, st
	}
	ctx := f.begin(cancel, h)
	defer ctx.end()
	got, err := f.cache.ListXattrs(ctx, f.cred(h, i), i)
	if nfsclient.Errno(err) == syscall.EOPNOTSUPP {
		return nil, fuse.OK
	}
	if err != nil {
		return nil, errno(err)
	}
	var names []byte
	for _, n := range got {
		if n == "" || strings.ContainsRune(n, 0) {
			continue // no name that a program could ask for
		}
		names = append(names, userPrefix+n+"\x00"...)
	}
	return names, fuse.OK
}

func (f *FS) setUserXattr(cancel <-chan struct{}, in *fuse.SetXAttrIn, name string, value []byte) fuse.Status {
	how := nfsclient.XattrEither
	switch in.Flags & (xattrCreate | xattrReplace) {
	case xattrCreate:
		how = nfsclient.XattrCreate
	case xattrReplace:
		how = nfsclient.XattrReplace
	case xattrCreate | xattrReplace:
		return fuse.EINVAL
	}
	if name == "" {
		return fuse.EINVAL
	}
	i, st := f.nodes.get(in.NodeId)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	return errno(f.cache.SetXattr(ctx, f.cred(&in.InHeader, i), i, name, value, how))
}

func (f *FS) removeUserXattr(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	if name == "" {
		return fuse.EINVAL
	}
	i, st := f.nodes.get(h.NodeId)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, h)
	defer ctx.end()
	return errno(f.cache.RemoveXattr(ctx, f.cred(h, i), i, name))
}
