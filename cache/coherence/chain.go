package coherence

import "github.com/rdmafs/rdmafs/nfsclient"

// chain connects the states that our own changes report to the state that
// everything in memory and in the kernel agrees with: each reply tells the state
// before and after (RFC 1813 section 2.6). Replies come in any order, so that
// pairs that do not connect yet are kept; a pair that never does means that
// someone else has changed the file in between.
type chain struct {
	now   nfsclient.ChangeID
	pairs map[nfsclient.ChangeID]nfsclient.ChangeID
}

// own takes one of our changes into account.
func (c *chain) own(pre, post nfsclient.ChangeID) {
	if pre == post {
		if pre != c.now {
			c.keep(pre, post)
		}
		return
	}
	if pre == c.now { // as nearly always
		delete(c.pairs, pre)
		c.now = post
	} else {
		c.keep(pre, post)
	}
	for next, ok := c.pairs[c.now]; ok; next, ok = c.pairs[c.now] {
		delete(c.pairs, c.now)
		c.now = next
	}
}

func (c *chain) keep(pre, post nfsclient.ChangeID) {
	if c.pairs == nil {
		c.pairs = make(map[nfsclient.ChangeID]nfsclient.ChangeID)
	}
	if _, ok := c.pairs[pre]; ok && pre == post {
		return
	}
	c.pairs[pre] = post
}

// finish forgets the pairs that did not connect, and reports whether there were
// any. A pair that changed nothing does not count: its state may have been
// passed by.
func (c *chain) finish() (broken bool) {
	for pre, post := range c.pairs {
		if pre != post {
			broken = true
		}
	}
	c.pairs = nil
	return broken
}
