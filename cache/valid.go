package cache

import (
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

func since1970(t time.Time) time.Duration { return time.Duration(t.UnixNano()) }

// validity is the state that everything in memory and in the kernel agrees
// with. Our own changes carry it forward: each reply tells the state before
// and after (RFC 1813 section 2.6). Replies may come out of order, so pairs
// that do not fit yet are kept; a pair that never fits means that someone else
// has changed the file in between.
type validity struct {
	now   nfsclient.ChangeID
	chain map[nfsclient.ChangeID]nfsclient.ChangeID
}

// own takes one of our changes into account.
func (v *validity) own(pre, post nfsclient.ChangeID) {
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

func (v *validity) hold(pre, post nfsclient.ChangeID) {
	if v.chain == nil {
		v.chain = make(map[nfsclient.ChangeID]nfsclient.ChangeID)
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
