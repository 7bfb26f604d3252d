package fs

import (
	"slices"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// maxGroups is how many supplementary groups a call carries (RFC 5531, appendix A).
const maxGroups = 16

// cred is the credential of a caller for an operation on inodes. Of a caller with more
// groups than a call carries, those that own the inodes come first: the mode of a file
// says nothing of others.
func (f *FS) cred(h *fuse.InHeader, on ...*cache.Inode) nfsclient.Cred {
	cr := f.creds.of(h)
	preferOwners(&cr, on...)
	return cr
}

func preferOwners(cr *nfsclient.Cred, on ...*cache.Inode) {
	if len(cr.GIDs) <= maxGroups {
		return
	}
	for _, i := range on {
		preferGroup(cr, i.Group())
	}
}

// preferGroup has a group be among those that a call carries, if the caller is in it.
func preferGroup(cr *nfsclient.Cred, gid uint32) {
	if at := slices.Index(cr.GIDs, gid); at > 0 && len(cr.GIDs) > maxGroups {
		copy(cr.GIDs[1:], cr.GIDs[:at])
		cr.GIDs[0] = gid
	}
}
