package coherence

import (
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// State tells one content of a file or directory from another, as well as
// NFSv3 can. Times are since 1970.
type State struct {
	Size         uint64
	Mtime, Ctime time.Duration
}

func since1970(t time.Time) time.Duration { return time.Duration(t.UnixNano()) }

// StateOf is the state that attributes describe.
func StateOf(a *nfsclient.Attr) State {
	return State{a.Size, since1970(a.Mtime), since1970(a.Ctime)}
}

func stateBefore(p *nfsclient.PreAttr) State {
	return State{p.Size, since1970(p.Mtime), since1970(p.Ctime)}
}

// leads says whether post may be what our own writes have made of s. Replies to
// writes side by side come in any order; with one ctime, the last is the one
// with the largest size.
func (s State) leads(post State) bool {
	return post.Ctime > s.Ctime || post.Ctime == s.Ctime && post.Size >= s.Size
}

// chain connects the states that our own changes report to the state that
// everything in memory and in the kernel agrees with: each reply tells the state
// before and after (RFC 1813 section 2.6). Replies come in any order, so that
// pairs that do not connect yet are kept; a pair that never does means that
// someone else has changed the file in between.
type chain struct {
	now   State
	pairs map[State]State
}

// own takes one of our changes into account.
func (c *chain) own(pre, post State) {
	if pre == post {
		if pre != c.now {
			c.keep(pre, post)
		}
		return
	}
	c.keep(pre, post)
	for next, ok := c.pairs[c.now]; ok; next, ok = c.pairs[c.now] {
		delete(c.pairs, c.now)
		c.now = next
	}
}

func (c *chain) keep(pre, post State) {
	if c.pairs == nil {
		c.pairs = make(map[State]State)
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
