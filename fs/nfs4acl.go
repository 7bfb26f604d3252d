package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
)

// nfs4ACL is the name by which Linux shows the list of NFSv4, and by which nfs4-acl-tools get and set it.
const nfs4ACL = "system.nfs4_acl"

func (f *FS) getNFS4ACL(cancel <-chan struct{}, h *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	i, st := f.nodes.get(h.NodeId)
	if !st.Ok() {
		return 0, st
	}
	ctx := f.begin(cancel, h)
	defer ctx.end()
	l, err := f.cache.NFS4ACL(ctx, f.creds.ids(h), i)
	if err != nil {
		return 0, aclErrno(err)
	}
	return copyXattr(dest, l)
}

// setNFS4ACL sets the list. A file always has one: flags that say whether it must be there are not looked at, as on
// Linux.
func (f *FS) setNFS4ACL(cancel <-chan struct{}, h *fuse.InHeader, l []byte) fuse.Status {
	i, st := f.nodes.get(h.NodeId)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, h)
	defer ctx.end()
	if err := f.cache.SetNFS4ACL(ctx, f.cred(h, i), i, l); err != nil {
		return aclErrno(err)
	}
	// The mode may have changed with the list, unseen by the kernel. Data stays.
	f.server.InodeNotify(h.NodeId, -1, 0)
	return fuse.OK
}
