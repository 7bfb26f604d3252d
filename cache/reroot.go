package cache

import (
	"fmt"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// rerooted takes over that another directory stands for the root, with the attributes a. No name
// is believed any more, and no attributes: every path is looked up again from the new root. Files
// that are open stay the ones that they are, which the server does not know (ESTALE). The root's
// inode keeps its number, and numbers of files are made as if the export had been mounted anew.
func (c *Cache) rerooted(a nfsclient.Attr) {
	c.mu.Lock()
	c.fsid = a.FSID
	open := len(c.opened)
	c.mu.Unlock()
	c.staleGen.Store(c.gen.Add(1))
	for _, i := range c.inodes() {
		i.mu.Lock()
		i.node.Invalidate()
		i.dropRights()
		i.doubt()
		if i.typ == nfsclient.Directory {
			i.forgetNames(true)
		}
		if i == c.root {
			i.staleTold = false
		}
		i.mu.Unlock()
		i.unpin()
	}
	c.cfg.Log.Warn(fmt.Sprintf("the server did not know the export's root any more (ESTALE), and has given another when it was mounted again: paths lead to "+
		"what is there now; %d files that are open from before are lost to those who have them open", open))
}
