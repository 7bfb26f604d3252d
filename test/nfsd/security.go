package nfsd

import (
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss"
)

// Flavors of security, as MOUNT and SECINFO number them (RFC 2623 section 2.2.1, RFC 5531
// section 13.4.2).
const (
	SecNone  uint32 = 0
	SecSys   uint32 = 1
	SecKrb5  uint32 = 390003
	SecKrb5i uint32 = 390004
	SecKrb5p uint32 = 390005
)

// Kerberos has a server take calls of RPCSEC_GSS.
type Kerberos struct {
	// Acceptor makes the contexts.
	Acceptor rpcsecgss.Acceptor
	// Users says who a principal, like alice@REALM, is here. Whom it does not know
	// is anonymous.
	Users func(principal string) (transport.AuthSys, bool)
}

// ParseSecurity reads flavors as sec= has them, separated by sep.
func ParseSecurity(list, sep string) ([]uint32, error) {
	var all []uint32
	for name := range strings.SplitSeq(list, sep) {
		f, ok := map[string]uint32{"sys": SecSys, "krb5": SecKrb5, "krb5i": SecKrb5i, "krb5p": SecKrb5p}[name]
		if !ok {
			return nil, fmt.Errorf("security %q: not sys, krb5, krb5i or krb5p", name)
		}
		all = append(all, f)
	}
	return all, nil
}

// flavors lists those that an export's files may be reached by, in the order of
// preference. Whoever may say that he is anybody may say nothing.
func (e *export) flavors() []uint32 {
	if len(e.Security) == 0 {
		return []uint32{SecSys, SecNone}
	}
	if !slices.Contains(e.Security, SecSys) {
		return e.Security
	}
	return append(slices.Clone(e.Security), SecNone)
}

// allows reports whether the files of e may be reached by a call secured as q is.
func (e *export) allows(q *transport.Request) bool {
	if e.inClear(q) {
		return false
	}
	if len(e.Security) == 0 {
		return q.Security == SecSys || q.Security == SecNone
	}
	return slices.Contains(e.Security, q.Security) || q.Security == SecNone && slices.Contains(e.Security, SecSys)
}

// inClear reports whether a call has come in clear text that must not.
func (e *export) inClear(q *transport.Request) bool {
	return e.Encrypted && q.Transport == "tcp" && !q.Encrypted
}

// guarded returns h as transports are to call it.
func (s *Server) guarded(h transport.Handler) transport.Handler {
	k := s.cfg.Kerberos
	if k == nil {
		return h
	}
	s.gss = rpcsecgss.NewServer(h, rpcsecgss.ServerConfig{
		Acceptor: k.Acceptor,
		Flavors:  [...]uint32{rpcsecgss.None: SecKrb5, rpcsecgss.Integrity: SecKrb5i, rpcsecgss.Privacy: SecKrb5p},
		Log:      s.cfg.Log,
	})
	return s.gss
}

// identify makes a principal's call that of a user here, as if it had come by AUTH_SYS, or
// anonymous; q.Security still says how it came.
func (s *Server) identify(q *transport.Request) {
	q.Flavor = transport.FlavorNone
	if who, ok := s.cfg.Kerberos.Users(q.Principal); ok {
		q.Flavor, q.Sys = transport.FlavorSys, who
	}
}

// LocalUsers are those of this machine, by the names of their principals in a realm.
// Principals of hosts and services, which have a slash, are nobody here.
func LocalUsers(realm string) func(principal string) (transport.AuthSys, bool) {
	l := &localUsers{realm: realm, known: map[string]localUser{}}
	return l.find
}

// localUsers remembers what it has asked of the user database, for a minute.
type localUsers struct {
	realm string

	mu    sync.Mutex
	known map[string]localUser
}

type localUser struct {
	sys   transport.AuthSys
	ok    bool
	since time.Time
}

const (
	localUserTime = time.Minute
	maxLocalUsers = 10000
)

func (l *localUsers) find(principal string) (transport.AuthSys, bool) {
	name, realm, _ := strings.Cut(principal, "@")
	if realm != l.realm || strings.Contains(name, "/") {
		return transport.AuthSys{}, false
	}
	l.mu.Lock()
	u, found := l.known[name]
	l.mu.Unlock()
	if found && time.Since(u.since) < localUserTime {
		return u.sys, u.ok
	}
	u = lookUp(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) >= maxLocalUsers {
		clear(l.known)
	}
	l.known[name] = u
	return u.sys, u.ok
}

// lookUp asks the user database.
func lookUp(name string) localUser {
	out := localUser{since: time.Now()}
	u, err := user.Lookup(name)
	if err != nil {
		return out
	}
	number := func(s string) uint32 {
		n, err := strconv.ParseUint(s, 10, 32)
		out.ok = out.ok && err == nil
		return uint32(n)
	}
	out.ok = true
	out.sys.UID, out.sys.GID = number(u.Uid), number(u.Gid)
	groups, err := u.GroupIds()
	if err != nil {
		groups = nil // the primary group is known
	}
	for _, g := range groups {
		if n := number(g); n != out.sys.GID {
			out.sys.GIDs = append(out.sys.GIDs, n)
		}
	}
	return out
}

// errSecurity: a call may not be secured as it is. With version 3 that is ACCES.
var errSecurity = unix.EACCES
