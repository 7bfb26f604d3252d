package wire

import (
	"errors"
	"slices"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// NFSACL has lists as Solaris sees them: the shortest has four entries, as there is a
// mask in each, and all entries have an id. POSIX has three, and ids of named users
// and groups alone.

// FromACL is a list as it travels. An empty default list stays empty. uid and gid are
// those of the file.
func FromACL(l []nfsclient.ACE, isDefault bool, uid, gid uint32) []ACLEntry {
	if len(l) == 0 {
		return nil
	}
	tag := uint32(0)
	if isDefault {
		tag = ACLDefaultEntry
	}
	out := make([]ACLEntry, 0, len(l)+1)
	mask, group := false, uint32(0)
	for _, e := range l {
		w := ACLEntry{Tag: uint32(e.Tag) | tag, Perm: uint32(e.Perm)}
		switch e.Tag {
		case nfsclient.ACLUserObj:
			w.ID = uid
		case nfsclient.ACLGroupObj:
			w.ID, group = gid, w.Perm
		case nfsclient.ACLUser, nfsclient.ACLGroup:
			w.ID = e.ID
		case nfsclient.ACLMask:
			mask = true
		}
		out = append(out, w)
	}
	if !mask { // in front of OTHER, which is the last
		out = slices.Insert(out, len(out)-1, ACLEntry{Tag: uint32(nfsclient.ACLMask) | tag, Perm: group})
	}
	return out
}

var errACL = errors.New("not an access control list")

// ToACL is the list that has come, in POSIX' order.
func ToACL(in []ACLEntry) ([]nfsclient.ACE, error) {
	if len(in) == 0 {
		return nil, nil
	}
	l := make([]nfsclient.ACE, 0, len(in))
	var group, mask *ACLEntry
	for i := range in {
		e := &in[i]
		tag := e.Tag &^ ACLDefaultEntry
		if tag > uint32(nfsclient.ACLOther) || e.Perm > 7 {
			return nil, errACL
		}
		a := nfsclient.ACE{Tag: nfsclient.ACETag(tag), Perm: uint16(e.Perm)}
		switch a.Tag {
		case nfsclient.ACLUser, nfsclient.ACLGroup:
			a.ID = e.ID
		case nfsclient.ACLGroupObj:
			group = e
		case nfsclient.ACLMask:
			mask = e
		}
		l = append(l, a)
	}
	if len(l) == 4 && group != nil && mask != nil && group.Perm == mask.Perm {
		l = slices.DeleteFunc(l, func(e nfsclient.ACE) bool { return e.Tag == nfsclient.ACLMask })
	}
	nfsclient.SortACL(l)
	if !nfsclient.ValidACL(l) {
		return nil, errACL
	}
	return l, nil
}
