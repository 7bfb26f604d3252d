package nfs4

import (
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// stateidsOf are the stateids of an opening and of what was locked through it. mu is held.
func (t *stateTable) stateidsOf(o *openState) []wire.Stateid {
	all := []wire.Stateid{o.sid.Latest()}
	for _, l := range t.locks {
		if l.open == o && l.known {
			all = append(all, l.sid)
		}
	}
	return all
}

// free acknowledges that stateids are dead. They are in use no more, so that a recovery does not
// find them; a server that has revoked them keeps them, and says so in each reply, until it
// hears this (RFC 8881 section 8.5).
func (c *Client) free(dead []wire.Stateid) {
	if len(dead) > 0 {
		c.state.spawn(&c.running, func() { c.runFree(dead) })
	}
}

func (c *Client) runFree(dead []wire.Stateid) {
	for _, sid := range dead {
		q := &request{op: "FREE_STATEID", at: 0}
		q.Ops, q.Cache = []wire.Operation{&wire.FreeStateID{Stateid: sid.Latest()}}, true
		// An error says that it never knew the stateid, or that a recovery has freed it.
		_ = c.do(c.life, c.cf.Cred, q)
	}
}
