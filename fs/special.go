package fs

import (
	"bytes"
	"context"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// A kernel that does not check modes asks nobody before it opens a FIFO or a device or
// connects to a socket (fuse_permission, fifo_open, unix_find_bsd). What such a node is
// connected to belongs to the kernel's inode, and that to a node number. A user whom the
// server gives no right to a FIFO or socket is therefore given a node number that nobody
// else has: the attributes are those of the file, all changes of it are made by the
// server as ever, but no listener and no other end of a pipe is there. Devices cannot be
// kept apart like that, and are never opened (noDevices).

// opensUnasked reports whether the kernel opens files of this type without a request.
func opensUnasked(t nfsclient.FileType) bool {
	return t == nfsclient.FIFO || t == nfsclient.Socket
}

// lookupSpecial replies to the lookup of a FIFO or socket. Which way a FIFO is going to
// be opened is not known: either right gives the node that all share.
func (f *FS) lookupSpecial(ctx *opContext, cr nfsclient.Cred, e cache.Entry, out *fuse.EntryOut) fuse.Status {
	want := nfsclient.AccessModify | nfsclient.AccessExtend
	if e.Inode.Type() == nfsclient.FIFO {
		want |= nfsclient.AccessRead
	}
	preferOwners(&cr, e.Inode)
	got, err := f.cache.Access(ctx, cr, e.Inode, want)
	if err != nil {
		f.cache.Forget(e.Inode, 1)
		return errno(err)
	}
	e.AttrTTL = f.attrTTL(e.Inode, e.AttrTTL)
	if got != 0 {
		f.setEntry(ctx, e, out)
		return fuse.OK
	}
	out.NodeId, out.Generation = f.nodes.alias(e.Inode), f.generation
	out.SetAttrTimeout(0)
	setAttr(&out.Attr, e.Inode.Ino(), &e.Attr)
	return fuse.OK
}

// attrTTL is how long the kernel may keep attributes of i. It is told of changes by one
// number only.
func (f *FS) attrTTL(i *cache.Inode, ttl time.Duration) time.Duration {
	if f.cfg.judges() && opensUnasked(i.Type()) {
		return 0
	}
	return ttl
}

// noDevices is the mount option that shuts devices of a mount whose users the kernel
// does not tell apart.
func (f *FS) noDevices() []string {
	if !f.cfg.judges() {
		return nil
	}
	if f.cfg.Log != nil && slices.Contains(f.cfg.Options, "dev") {
		f.cfg.Log.Info("devices of this mount cannot be opened, option dev notwithstanding: " +
			"with allow_other the kernel would ask nobody whether a user may; default_permissions has it check modes")
	}
	return []string{"nodev"}
}

// mayLink is the part of fs.protected_hardlinks (proc_sys_fs(5)) that the kernel leaves
// to the file system: a user links to a file of somebody else only if allowed to read
// and write it. That of type and set-id bits it has checked.
func (f *FS) mayLink(ctx context.Context, cr nfsclient.Cred, i *cache.Inode) fuse.Status {
	if cr.UID == 0 || f.cfg.DefaultPermissions {
		return fuse.OK
	}
	a, _, err := f.cache.GetSize(ctx, cr, i)
	if err != nil {
		return errno(err)
	}
	if a.UID == cr.UID || !protectedHardlinks() {
		return fuse.OK
	}
	const want = nfsclient.AccessRead | nfsclient.AccessModify
	got, err := f.cache.Access(ctx, cr, i, want)
	if err != nil {
		return errno(err)
	}
	if got != want {
		return fuse.Status(syscall.EPERM)
	}
	return fuse.OK
}

// protectedHardlinks reads the setting, which may change at any time.
func protectedHardlinks() bool {
	b, err := os.ReadFile("/proc/sys/fs/protected_hardlinks")
	return err == nil && !bytes.Equal(bytes.TrimSpace(b), []byte("0"))
}
