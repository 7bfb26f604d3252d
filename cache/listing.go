package cache

import (
	"sync/atomic"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// dirPart is what one READDIR returned.
type dirPart struct {
	from uint64 // the offset that it follows
	list []Dirent
	eof  bool // nothing lies behind it
	// seen is how many of the directory's entries end with it; 0: unknown.
	seen uint64

	reading
}

// reading says when a part was asked for, and the directory's state, if agreed: it was
// the one that is known.
type reading struct {
	at     stamp
	change nfsclient.ChangeID
	agreed bool
}

// last is the offset behind p, that before it if it is empty.
func (p *dirPart) last() uint64 {
	if n := len(p.list); n > 0 {
		return p.list[n-1].Off
	}
	return p.from
}

// has says whether an entry of p has the offset off.
func (p *dirPart) has(off uint64) bool {
	for k := range p.list {
		if p.list[k].Off == off {
			return true
		}
	}
	return false
}

// maxListed bounds the entries that an open directory holds besides those of
// the part in use, about 2 MiB, and maxListedAll those of all open directories:
// beyond it each has no more than that part.
const (
	maxListed    = 1 << 14
	maxListedAll = 1 << 18
)

// listing is the parts that an open directory holds, so that seekdir(3) into
// one asks nobody. All come with one verifier; the one used last is first.
type listing struct {
	verifier nfsclient.Verifier
	parts    []*dirPart
	entries  int
	all      *atomic.Int64 // the entries of all listings of the mount
}

// reset forgets all parts.
func (l *listing) reset() {
	l.all.Add(-int64(l.entries))
	*l = listing{all: l.all}
}

// behind returns what follows off. found with an empty list means the end.
func (l *listing) behind(off uint64) (p *dirPart, list []Dirent, found bool) {
	for n, p := range l.parts {
		if p.from == off {
			l.use(n)
			return p, p.list, true
		}
		for k := range p.list {
			if p.list[k].Off == off && (k+1 < len(p.list) || p.eof) {
				l.use(n)
				return p, p.list[k+1:], true
			}
		}
	}
	return nil, nil, false
}

// use moves part n to the front.
func (l *listing) use(n int) {
	p := l.parts[n]
	copy(l.parts[1:n+1], l.parts[:n])
	l.parts[0] = p
}

// before is how many of the directory's entries end with off, 0 if unknown.
func (l *listing) before(off uint64) uint64 {
	for _, p := range l.parts {
		if p.last() == off {
			return p.seen
		}
	}
	return 0
}

// add makes p the part in use, and drops those not used for longest. Parts with
// another verifier are dropped too: their cookies may mean something else now.
func (l *listing) add(p *dirPart, v nfsclient.Verifier) {
	if v != l.verifier {
		l.reset()
		l.verifier = v
	}
	l.parts = append(l.parts, p)
	l.entries += len(p.list)
	all := l.all.Add(int64(len(p.list)))
	l.use(len(l.parts) - 1)
	for n := len(l.parts) - 1; n > 0 && (l.entries-len(p.list) > maxListed || all > maxListedAll); n-- {
		l.entries -= len(l.parts[n].list)
		all = l.all.Add(-int64(len(l.parts[n].list)))
		l.parts[n] = nil
		l.parts = l.parts[:n]
	}
}
