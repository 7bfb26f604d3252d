package cache

import (
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// grant is what the server said of a user's rights to an inode. It holds as
// long as the attributes are believed, until then at most: a server may judge
// otherwise without touching the file, as when a user leaves a group there.
type grant struct {
	user           userKey
	asked, granted nfsclient.AccessMask
	until          time.Duration // since Cache.born
	next           *grant        // of another user
}

// maxGrants bounds the users remembered per inode.
const maxGrants = 64

// noGrant stays empty.
var noGrant = &grant{}

// grantOf is what is known of a user's rights; mu is held.
func (i *Inode) grantOf(k userKey) (g *grant, known bool) {
	for g := i.access; g != nil; g = g.next {
		if g.user == k {
			return g, true
		}
	}
	return noGrant, false
}

// granted looks want up; mu is held.
func (i *Inode) granted(k userKey, want nfsclient.AccessMask, now time.Time) (nfsclient.AccessMask, bool) {
	g, _ := i.grantOf(k)
	if g.asked&want != want || !i.fresh(now) || now.Sub(i.c.born) >= g.until {
		return 0, false
	}
	return g.granted & want, true
}

// answered takes over attributes a, nil where none came, and rights from the
// answer to a question asked at st; mu is held. Rights are remembered only if
// they are of the file as it is known now: nothing has dropped rights since the
// question, and no newer attributes are known.
func (i *Inode) answered(st stamp, a *nfsclient.Attr, k userKey, asked, granted nfsclient.AccessMask) {
	current := st.gen > i.accessGen
	if a != nil {
		i.note(st, a)
		current = current && !i.attr.change.After(a.Change)
	}
	if !current {
		return
	}
	_, most := i.bounds()
	until := st.at.Add(most).Sub(i.c.born)
	g, known := i.grantOf(k)
	if known {
		if g.asked&^asked != 0 {
			until = min(until, g.until)
		}
		g.asked, g.granted, g.until = g.asked|asked, g.granted&^asked|granted&asked, until
		return
	}
	users := 0
	for g := i.access; g != nil; g = g.next {
		users++
	}
	if users >= maxGrants {
		i.access = nil
	}
	i.access = &grant{k, asked, granted & asked, until, i.access}
}

// dropRights forgets everybody's rights, and has answers to questions that are
// still under way not be remembered; mu is held.
func (i *Inode) dropRights() {
	i.access = nil
	i.accessGen = i.c.gen.Add(1)
}
