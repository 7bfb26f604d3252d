package cache

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/rdmafs/rdmafs/cache/coherence"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// userKey tells credentials apart: ids, and the groups by a hash with a seed
// that nobody outside knows.
type userKey = coherence.User

func (c *Cache) user(cr *nfsclient.Cred) userKey {
	k := userKey{UID: cr.UID, GID: cr.GID}
	if len(cr.GIDs) > 0 {
		var h maphash.Hash
		h.SetSeed(c.seed)
		var b [4]byte
		for _, g := range cr.GIDs {
			b[0], b[1], b[2], b[3] = byte(g), byte(g>>8), byte(g>>16), byte(g>>24)
			h.Write(b[:])
		}
		k.Groups = h.Sum64()
	}
	return k
}

// Access returns which rights of want the user has.
func (c *Cache) Access(ctx context.Context, cr nfsclient.Cred, i *Inode, want nfsclient.AccessMask) (nfsclient.AccessMask, error) {
	k := c.user(&cr)
	i.mu.Lock()
	got, ok := i.granted(k, want, c.cfg.Now())
	i.mu.Unlock()
	if ok {
		return got, nil
	}
	return c.accessSoftly(ctx, cr, k, i, want)
}

// askAccess makes an ACCESS call, for all rights that the type has: that costs the
// same. fresh says that the reply had attributes.
func (c *Cache) askAccess(ctx context.Context, cr nfsclient.Cred, k userKey, i *Inode, want nfsclient.AccessMask) (got nfsclient.AccessMask, fresh bool, err error) {
	return c.accessBy(ctx, c.cl, cr, k, i, want)
}

func (c *Cache) accessBy(ctx context.Context, cl revalidator, cr nfsclient.Cred, k userKey, i *Inode, want nfsclient.AccessMask) (got nfsclient.AccessMask, fresh bool, err error) {
	ask := want | nfsclient.FileRights
	if i.typ == nfsclient.Directory {
		ask = want | nfsclient.AccessRead | nfsclient.AccessModify | nfsclient.AccessExtend | nfsclient.AccessLookup | nfsclient.AccessDelete
	}
	st := c.stamp()
	got, a, err := cl.Access(ctx, cr, i.h, ask)
	if err != nil {
		i.failed(err)
		return 0, false, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answered(st, a, k, ask, got)
	return got & want, a != nil, nil
}

// granted looks want up; mu is held. Rights are fresh no longer than attributes are.
func (i *Inode) granted(k userKey, want nfsclient.AccessMask, now time.Time) (nfsclient.AccessMask, bool) {
	if !i.fresh(now) {
		return 0, false
	}
	return i.rights.Granted(k, want, i.c.since(now))
}

// answered takes over rights and attributes a, which may be nil, from the reply to a
// call sent at st; mu is held. Rights are kept only if they are of the file as it is
// known now: nothing has changed them since the call, and no newer attributes are
// known.
func (i *Inode) answered(st stamp, a *nfsclient.Attr, k userKey, asked, granted nfsclient.AccessMask) {
	current := i.rights.Current(st)
	if a != nil {
		i.note(st, a)
		current = current && !i.node.ChangedAfter(a)
	}
	if current {
		i.rights.Remember(k, asked, granted, st.At+i.rules().Max)
	}
}

// dropRights forgets everybody's rights, and access control lists; mu is held.
func (i *Inode) dropRights() {
	i.rights.Forget(i.c.gen.Add(1))
	i.knowACL(aclUnknown, nil)
}
