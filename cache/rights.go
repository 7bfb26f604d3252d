package cache

import (
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// grant is what the server said of a user's rights to an inode. It holds as
// long as the attributes are believed, until then at most: a server may judge
// otherwise without touching the file, as when a user leaves a group there.
type grant struct {
	asked, granted nfsclient.AccessMask
	until          time.Time
}

// maxGrants bounds the users remembered per inode.
const maxGrants = 64

// granted looks want up; mu is held.
func (i *Inode) granted(k userKey, want nfsclient.AccessMask, now time.Time) (nfsclient.AccessMask, bool) {
	g := i.access[k]
	if g.asked&want != want || !i.fresh(now) || !now.Before(g.until) {
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
		current = current && !a.Ctime.Before(i.attr.Ctime)
	}
	if !current {
		return
	}
	g, known := i.access[k]
	if i.access == nil || !known && len(i.access) >= maxGrants {
		i.access = make(map[userKey]grant, 1)
	}
	_, most := i.bounds()
	until := st.at.Add(most)
	if g.asked&^asked != 0 && g.until.Before(until) {
		until = g.until
	}
	i.access[k] = grant{g.asked | asked, g.granted&^asked | granted&asked, until}
}

// dropRights forgets everybody's rights, and has answers to questions that are
// still under way not be remembered; mu is held.
func (i *Inode) dropRights() {
	i.access = nil
	i.accessGen = i.c.gen.Add(1)
}
