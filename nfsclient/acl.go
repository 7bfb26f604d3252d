package nfsclient

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// MaxACL bounds the entries of an access control list (NFS_ACL_MAX_ENTRIES).
const MaxACL = 1024

// SortACL puts l into the order that POSIX 1003.1e and the kernel want: by tag, and users
// and groups by id.
func SortACL(l []ACE) {
	slices.SortStableFunc(l, func(a, b ACE) int {
		return cmp.Or(cmp.Compare(a.Tag, b.Tag), cmp.Compare(a.ID, b.ID))
	})
}

// ValidACL reports whether l, which is sorted, is an access control list: one entry each
// for owner, group and others, none twice, and a mask if there are named ones.
func ValidACL(l []ACE) bool {
	var count [ACLOther + 1]int
	for i, e := range l {
		switch e.Tag {
		case ACLUserObj, ACLUser, ACLGroupObj, ACLGroup, ACLMask, ACLOther:
		default:
			return false
		}
		if e.Perm > 7 || i > 0 && e == (ACE{l[i-1].Tag, e.Perm, l[i-1].ID}) {
			return false
		}
		count[e.Tag]++
	}
	named := count[ACLUser]+count[ACLGroup] > 0
	return len(l) <= MaxACL && count[ACLUserObj] == 1 && count[ACLGroupObj] == 1 && count[ACLOther] == 1 &&
		(count[ACLMask] == 1 || count[ACLMask] == 0 && !named)
}

// ModeACL is the access list that says what a mode says.
func ModeACL(mode uint32) []ACE {
	return []ACE{
		{Tag: ACLUserObj, Perm: uint16(mode >> 6 & 7)},
		{Tag: ACLGroupObj, Perm: uint16(mode >> 3 & 7)},
		{Tag: ACLOther, Perm: uint16(mode & 7)},
	}
}

// Trivial reports whether l says no more than a mode does.
func Trivial(l []ACE) bool { return len(l) <= 3 }

// The kernel's form of a list, the value of the extended attributes
// system.posix_acl_access and system.posix_acl_default: a version and entries of 8 bytes
// (include/uapi/linux/posix_acl_xattr.h).
const (
	aclXattrVersion = 2
	aclXattrHead    = 4
	aclXattrEntry   = 8
	aclNoID         = ^uint32(0)
)

// AppendACLXattr appends the kernel's form of l.
func AppendACLXattr(b []byte, l []ACE) []byte {
	b = binary.LittleEndian.AppendUint32(b, aclXattrVersion)
	for _, e := range l {
		id := aclNoID
		if e.Tag == ACLUser || e.Tag == ACLGroup {
			id = e.ID
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(e.Tag))
		b = binary.LittleEndian.AppendUint16(b, e.Perm)
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	return b
}

// ParseACLXattr reads the kernel's form of a list, and sorts it. ok is false for what is no
// such list; one without entries is empty.
func ParseACLXattr(b []byte) (l []ACE, ok bool) {
	if len(b) < aclXattrHead || (len(b)-aclXattrHead)%aclXattrEntry != 0 || binary.LittleEndian.Uint32(b) != aclXattrVersion {
		return nil, false
	}
	b = b[aclXattrHead:]
	if len(b)/aclXattrEntry > MaxACL {
		return nil, false
	}
	for ; len(b) > 0; b = b[aclXattrEntry:] {
		e := ACE{Tag: ACETag(binary.LittleEndian.Uint16(b)), Perm: binary.LittleEndian.Uint16(b[2:])}
		if e.Tag == ACLUser || e.Tag == ACLGroup {
			e.ID = binary.LittleEndian.Uint32(b[4:])
		}
		l = append(l, e)
	}
	if len(l) == 0 {
		return nil, true
	}
	SortACL(l)
	return l, ValidACL(l)
}
