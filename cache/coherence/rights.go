package coherence

import (
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// User tells credentials apart: ids, and the groups by a hash.
type User struct {
	UID, GID uint32
	Groups   uint64
}

// Rights is what the server has said of users' rights to one file or directory.
type Rights struct{ first *grant }

// grant is what is known of one user. It is valid as long as the attributes are fresh,
// and until a time at most: the server may decide otherwise without a change of the
// file, as when a user leaves a group there.
type grant struct {
	user           User
	asked, granted nfsclient.AccessMask
	until          time.Duration
	next           *grant // of another user
	// gen is when all were last forgotten, and only kept in the first; that one is blank then,
	// with nothing asked.
	gen uint64
}

// MaxUsers bounds the users remembered.
const MaxUsers = 64

func (r *Rights) of(u User) *grant {
	for g := r.first; g != nil; g = g.next {
		if g.user == u {
			return g
		}
	}
	return nil
}

// Last is which rights of want the user had when the server was asked last, and
// whether it was asked for them all since Forget.
func (r *Rights) Last(u User, want nfsclient.AccessMask) (got nfsclient.AccessMask, known bool) {
	g := r.of(u)
	if g == nil || g.asked&want != want {
		return 0, want == 0
	}
	return g.granted & want, true
}

// Granted is which rights of want the user has, and whether that is known.
func (r *Rights) Granted(u User, want nfsclient.AccessMask, now time.Duration) (got nfsclient.AccessMask, known bool) {
	g := r.of(u)
	if g == nil || g.asked&want != want || now >= g.until {
		return 0, false
	}
	return g.granted & want, true
}

// Current reports whether rights from the reply to a call sent at st are of the file as
// it is now: nothing has changed them since.
func (r *Rights) Current(st Stamp) bool { return st.Gen > r.gen() }

func (r *Rights) gen() uint64 {
	if r.first == nil {
		return 0
	}
	return r.first.gen
}

// Remember keeps the rights from a reply, until a time.
func (r *Rights) Remember(u User, asked, granted nfsclient.AccessMask, until time.Duration) {
	if g := r.of(u); g != nil {
		if g.asked&^asked != 0 {
			until = min(until, g.until)
		}
		g.asked, g.granted, g.until = g.asked|asked, g.granted&^asked|granted&asked, until
		return
	}
	if r.first != nil && r.first.asked == 0 {
		*r.first = grant{u, asked, granted & asked, until, nil, r.first.gen}
		return
	}
	users := 0
	for g := r.first; g != nil; g = g.next {
		users++
	}
	others := r.first
	if users >= MaxUsers {
		others = nil
	}
	r.first = &grant{u, asked, granted & asked, until, others, r.gen()}
}

// Forget forgets everybody's rights, and makes outstanding replies not current. gen is
// drawn now.
func (r *Rights) Forget(gen uint64) {
	if r.first == nil {
		r.first = new(grant)
	}
	*r.first = grant{gen: gen}
}
