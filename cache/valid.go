package cache

import (
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// state tells one content of a file or directory from another, as well as
// NFSv3 can.
type state struct {
	size  uint64
	mtime time.Duration // since the epoch
	ctime time.Duration
}

func since1970(t time.Time) time.Duration { return time.Duration(t.UnixNano()) }

func stateOf(a *nfsclient.Attr) state {
	return state{a.Size, since1970(a.Mtime), since1970(a.Ctime)}
}

func stateBefore(p *nfsclient.PreAttr) state {
	return state{p.Size, since1970(p.Mtime), since1970(p.Ctime)}
}

// leads says whether post may be what our own writes have made of s. Replies to
// writes side by side come in any order; with one ctime, the last is the one
// with the largest size.
func (s state) leads(post state) bool {
	return post.ctime > s.ctime || post.ctime == s.ctime && post.size >= s.size
}

// validity is the state that everything in memory and in the kernel agrees
// with. Our own changes carry it forward: each reply tells the state before
// and after (RFC 1813 section 2.6). Replies may come out of order, so pairs
// that do not fit yet are kept; a pair that never fits means that someone else
// has changed the file in between.
type validity struct {
	now   state
	chain map[state]state
}

// own takes one of our changes into account.
func (v *validity) own(pre, post state) {
	if pre == post {
		if pre != v.now {
			v.hold(pre, post)
		}
		return
	}
	v.hold(pre, post)
	for next, ok := v.chain[v.now]; ok; next, ok = v.chain[v.now] {
		delete(v.chain, v.now)
		v.now = next
	}
}

func (v *validity) hold(pre, post state) {
	if v.chain == nil {
		v.chain = make(map[state]state)
	}
	if _, ok := v.chain[pre]; ok && pre == post {
		return
	}
	v.chain[pre] = post
}

// settle forgets the pairs that did not fit and says whether there were any;
// a pair that changed nothing counts only if its state was never reached.
func (v *validity) settle() (broken bool) {
	for pre, post := range v.chain {
		if pre != post {
			broken = true
		}
	}
	v.chain = nil
	return broken
}
