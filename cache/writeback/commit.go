package writeback

import (
	"slices"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// call is a COMMIT in flight.
type call struct {
	as      UserKey
	refused []UserKey // users whose credentials were refused before
	backoff Backoff
	// ver is what all that it covers has, if same.
	ver  nfsclient.Verifier
	same bool
	// answered is the last write up to which all had been answered when it was
	// sent.
	answered uint64
}

// mismatch is the state of a file whose last COMMIT answered with a verifier
// that none of its WRITEs had. If that goes on, the server loses data as fast as
// it is sent again, so each further COMMIT waits longer. The first one does not: a
// server may restart.
type mismatch struct {
	backoff Backoff
	wait    time.Duration
}

// BeginCommit asks for a COMMIT, after Sync has said AskCommit or Tick has: after
// wait, SendCommit or DropCommit must follow. ok is false if one is asked for
// already, or the file is being truncated.
func (f *File) BeginCommit() (wait time.Duration, ok bool) {
	if !f.try(commitAsked) {
		return 0, false
	}
	return f.CommitDelay(), true
}

// Trusted says that the last COMMIT has not found all data lost.
func (f *File) Trusted() bool { return f.mismatch == nil }

// CommitDelay is how long the next COMMIT waits.
func (f *File) CommitDelay() time.Duration {
	if f.mismatch == nil {
		return 0
	}
	return f.mismatch.wait
}

// DropCommit says that the caller of BeginCommit has given up.
func (f *File) DropCommit() {
	f.must(commitDropped)
	f.wake = true
}

// SendCommit is the credential for the COMMIT of the whole file that is to be sent
// now. ok is false if there is nothing to commit any more: none is sent.
func (f *File) SendCommit() (cr nfsclient.Cred, ok bool) {
	if len(f.unstable) == 0 {
		f.DropCommit()
		return cr, false
	}
	f.must(commitSent)
	f.commit++
	first := f.unstable[0]
	c := &call{as: first.user, ver: first.ver, same: true, answered: f.seq}
	for _, e := range f.unstable {
		e.commit = f.commit
		c.same = c.same && e.ver == c.ver
	}
	for _, l := range []layer{f.dirty, f.flight} {
		for _, e := range l {
			c.answered = min(c.answered, e.seq-1)
		}
	}
	f.call = c
	return first.cred, true
}

// Committed is what follows from the reply to a COMMIT.
type Committed struct {
	// Again: the COMMIT is to be sent once more, as Cred, after Wait.
	Again bool
	Cred  nfsclient.Cred
	Wait  time.Duration
	// Lost: data could not be committed and was dropped.
	Lost bool
	// Mistrusted: all data was lost, for the second time or more. Trusted: no
	// more so.
	Mistrusted, Trusted bool
}

// Committed takes the reply to the COMMIT in flight, or the error that it ended
// with. Of what it covers, what has the verifier ver is on stable storage, the rest
// is dirty again. With unknown, the error says nothing of the data, as the call was
// given up. The COMMIT may be any user's whose data it is for; where one is refused
// the next one is asked for.
func (f *File) Committed(ver nfsclient.Verifier, err error, unknown bool) (r Committed) {
	if err != nil && !unknown && f.state.allows(commitResent) {
		if r, ok := f.resend(err); ok {
			return r
		}
	}
	f.must(committed)
	c := f.call
	f.call = nil
	var rest, lost layer
	matched := 0
	for _, e := range f.unstable {
		switch {
		case e.commit != f.commit || unknown:
			rest = append(rest, e)
		case err == nil && e.ver == ver:
			f.drop(e)
			matched++
		default:
			lost = append(lost, e)
		}
	}
	f.unstable = rest
	if err == nil && c.same && ver == c.ver {
		// Bytes that were replaced while the COMMIT was in flight are committed, too:
		// what replaced them need not answer for them. Without this a continuous
		// writer could delay every fsync.
		for _, e := range rest {
			e.seq = max(e.seq, c.answered+1)
		}
	}
	for _, e := range lost {
		if err != nil {
			f.drop(e)
		} else {
			f.redirty(e)
		}
	}
	f.wake = true
	if err == nil {
		f.judge(matched, len(lost), &r)
	}
	r.Lost = err != nil && len(lost) > 0
	return r
}

// resend says whether a COMMIT that ended with err is to be sent once more.
func (f *File) resend(err error) (r Committed, again bool) {
	c := f.call
	switch s, _ := nfsclient.StatusOf(err); {
	case TryLater(err):
		r.Wait = c.backoff.Next()
	case s == nfsclient.ErrAccess, s == nfsclient.ErrPerm:
		c.refused = append(c.refused, c.as)
		c.backoff = Backoff{}
	default:
		return r, false
	}
	for _, e := range f.unstable {
		if e.commit == f.commit && !slices.Contains(c.refused, e.user) {
			f.must(commitResent)
			c.as = e.user
			r.Again, r.Cred = true, e.cred
			return r, true
		}
	}
	return Committed{}, false
}

// judge takes into account that so many extents had the verifier of the reply,
// and so many had not.
func (f *File) judge(matched, lost int, r *Committed) {
	switch {
	case lost == 0 && matched > 0:
		r.Trusted = f.mismatch != nil && f.mismatch.wait > 0
		f.mismatch = nil
	case lost == 0 || matched > 0:
	case f.mismatch == nil:
		f.mismatch = &mismatch{}
	default:
		f.mismatch.wait = f.mismatch.backoff.Next()
		r.Mistrusted = true
	}
}
