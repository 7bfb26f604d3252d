package vfs

import (
	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// The kernel keeps access control lists as extended attributes, and judges by them.
const (
	accessXattr  = "system.posix_acl_access"
	defaultXattr = "system.posix_acl_default"
	// maxACLXattr is the length of the longest list that NFSACL can carry.
	maxACLXattr = 4 + 8*nfsclient.MaxACL
)

// ACL is n's access list, or its default list, empty if there is none, and its attributes.
func (t *Tree) ACL(n *Node, isDefault bool) ([]nfsclient.ACE, error) {
	b := make([]byte, maxACLXattr)
	k, err := unix.Getxattr(procPath(n.fd), aclXattr(isDefault), b)
	switch {
	case err == unix.ENODATA:
		return nil, nil
	case err != nil:
		return nil, err
	}
	l, ok := nfsclient.ParseACLXattr(b[:k])
	if !ok {
		return nil, unix.EIO
	}
	return l, nil
}

// SetACL gives n an access list or a default list, or takes it away, as c.
func (t *Tree) SetACL(c *Cred, n *Node, isDefault bool, l []nfsclient.ACE) error {
	if t.cfg.ReadOnly {
		return unix.EROFS
	}
	id, err := t.as(c)
	if err != nil {
		return err
	}
	defer id.drop()
	if len(l) > 0 {
		return unix.Setxattr(procPath(n.fd), aclXattr(isDefault), nfsclient.AppendACLXattr(nil, l), 0)
	}
	if err := unix.Removexattr(procPath(n.fd), aclXattr(isDefault)); err != unix.ENODATA {
		return err
	}
	return nil
}

// SyncACL makes n's lists durable, as Setattr does attributes.
func (t *Tree) SyncACL(n *Node) error { return t.syncAttr(n) }

func aclXattr(isDefault bool) string {
	if isDefault {
		return defaultXattr
	}
	return accessXattr
}

// inherits reports whether what is made in dir gets its access list from there. The kernel
// then does not apply the process's umask.
func inherits(dir *Node) bool {
	n, err := unix.Getxattr(procPath(dir.fd), defaultXattr, nil)
	return err == nil && n > 0
}
