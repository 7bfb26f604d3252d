package krb5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/types"
)

// A credential cache holds the principal whose tickets are in it, and these, in the
// format of MIT's and Heimdal's files, versions 3 and 4: all numbers big-endian. Older
// versions are in the byte order of the machine that wrote them, and nobody writes them
// any more. What reads a cache takes nothing in it for granted: it belongs to its user.

// errCache: the bytes are not a cache.
var errCache = errors.New("not a credential cache of version 3 or 4")

// errNoCache: there is none of that name.
var errNoCache = fmt.Errorf("there is no such cache: %w", os.ErrNotExist)

// principal is a name and its realm.
type principal struct {
	kind  uint32
	realm string
	parts []string
}

func (p principal) String() string { return strings.Join(p.parts, "/") + "@" + p.realm }

func (p principal) name() types.PrincipalName {
	return types.PrincipalName{NameType: int32(p.kind), NameString: p.parts}
}

// is reports whether p has that realm and these components.
func (p principal) is(realm string, parts ...string) bool {
	return p.realm == realm && strings.Join(p.parts, "\x00") == strings.Join(parts, "\x00")
}

// entry is one ticket of a cache.
type entry struct {
	client, server principal
	key            types.EncryptionKey
	auth, start    time.Time
	end, renewTill time.Time
	ticket         []byte
}

// cached is what a cache holds.
type cached struct {
	client  principal
	entries []entry
}

// Bounds of what a cache may hold.
const (
	maxCache      = 4 << 20
	maxTickets    = 1 << 10
	maxComponents = 16
	maxAddresses  = 1 << 10
	configRealm   = "X-CACHECONF:" // of entries that are settings and no tickets
)

// cacheReader reads big-endian numbers and counted data; after the first that is not
// there, bad is set and everything is zero.
type cacheReader struct {
	b   []byte
	bad bool
}

func (r *cacheReader) take(n uint32) []byte {
	if r.bad || uint64(n) > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *cacheReader) uint16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *cacheReader) uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *cacheReader) data() []byte { return r.take(r.uint32()) }

// count is a number of items of at least size bytes each.
func (r *cacheReader) count(limit, size int) int {
	n := r.uint32()
	if r.bad || n > uint32(limit) || int(n) > len(r.b)/size {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *cacheReader) time() time.Time {
	if t := r.uint32(); t != 0 {
		return time.Unix(int64(t), 0)
	}
	return time.Time{}
}

func (r *cacheReader) principal() (p principal) {
	p.kind = r.uint32()
	n := r.count(maxComponents, 4)
	p.realm = string(r.data())
	for range n {
		p.parts = append(p.parts, string(r.data()))
	}
	return p
}

// entry reads one credential of version 4, or of version 3, whose key has its type twice.
func (r *cacheReader) entry(version byte) (e entry) {
	e.client, e.server = r.principal(), r.principal()
	e.key.KeyType = int32(r.uint16())
	if version == 3 {
		r.uint16()
	}
	e.key.KeyValue = r.data()
	e.auth, e.start, e.end, e.renewTill = r.time(), r.time(), r.time(), r.time()
	r.take(1 + 4) // is_skey, flags
	for range 2 { // addresses, authorization data
		for range r.count(maxAddresses, 2+4) {
			r.uint16()
			r.data()
		}
	}
	e.ticket = r.data()
	r.data() // second ticket
	return e
}

// parseCache decodes a cache file. The parts of it that are kept are parts of b.
func parseCache(b []byte) (*cached, error) {
	r := &cacheReader{b: b}
	head := r.take(2)
	if r.bad || head[0] != 5 || head[1] != 3 && head[1] != 4 {
		return nil, errCache
	}
	version := head[1]
	if version == 4 {
		r.take(uint32(r.uint16())) // tagged fields of the header
	}
	c := &cached{client: r.principal()}
	for !r.bad && len(r.b) > 0 {
		e := r.entry(version)
		if !r.bad && e.server.realm != configRealm {
			c.entries = append(c.entries, e)
		}
	}
	if r.bad {
		return nil, fmt.Errorf("%w: it is damaged", errCache)
	}
	return c, nil
}

// parsePrincipal decodes a principal that stands alone.
func parsePrincipal(b []byte) (principal, error) {
	r := &cacheReader{b: b}
	p := r.principal()
	if r.bad || len(r.b) > 0 {
		return principal{}, fmt.Errorf("%w: its principal is damaged", errCache)
	}
	return p, nil
}

// add decodes an entry of version 4 that stands alone, and keeps it if it is a ticket.
func (c *cached) add(b []byte) error {
	r := &cacheReader{b: b}
	e := r.entry(4)
	if r.bad || len(r.b) > 0 {
		return fmt.Errorf("%w: a ticket is damaged", errCache)
	}
	if e.server.realm != configRealm {
		c.entries = append(c.entries, e)
	}
	return nil
}

// find is the ticket for a service that is valid for longest, or nil.
func (c *cached) find(now time.Time, realm string, parts ...string) *entry {
	var best *entry
	for i := range c.entries {
		e := &c.entries[i]
		if !e.server.is(realm, parts...) || !now.Before(e.end) || e.start.After(now.Add(maxSkew)) {
			continue
		}
		if _, ok := enctypes[e.key.KeyType]; !ok || len(e.key.KeyValue) != enctypes[e.key.KeyType].keyLen {
			continue
		}
		if best == nil || e.end.After(best.end) {
			best = e
		}
	}
	return best
}
