package nfs4

import (
	"os/user"
	"strconv"
	"strings"
	"sync"
)

// nobody is who owns a file whose owner's name is not known here.
const nobody = 65534

// maxOwners bounds the names that owners remembers. Beyond, it starts anew.
const maxOwners = 1 << 12

// owners turns the owners and groups of files into numbers and back (RFC 8881 section 5.9). With
// AUTH_SYS servers send decimal numbers, and so does the client. Of a name with a domain the domain
// is not compared: the accounts here are what is asked.
type owners struct {
	mu    sync.Mutex
	users map[string]uint32
	group map[string]uint32
	// domain is the last that the server has named; names are sent if it does not take numbers.
	domain string
	names  bool
}

// number is the decimal number s stands for. A leading zero or sign is part of a name.
func number(s string) (uint32, bool) {
	if s == "" || len(s) > 1 && s[0] == '0' || s[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err == nil
}

// uid is the number of an owner.
func (o *owners) uid(s string) uint32 {
	if n, ok := number(s); ok {
		return n
	}
	return o.find(&o.users, s, func(name string) (string, error) {
		u, err := user.Lookup(name)
		if err != nil {
			return "", err
		}
		return u.Uid, nil
	})
}

// gid is the number of a group.
func (o *owners) gid(s string) uint32 {
	if n, ok := number(s); ok {
		return n
	}
	return o.find(&o.group, s, func(name string) (string, error) {
		g, err := user.LookupGroup(name)
		if err != nil {
			return "", err
		}
		return g.Gid, nil
	})
}

func (o *owners) find(known *map[string]uint32, s string, lookup func(name string) (string, error)) uint32 {
	o.mu.Lock()
	id, ok := (*known)[s]
	o.mu.Unlock()
	if ok {
		return id
	}
	name, domain, _ := strings.Cut(s, "@")
	id = nobody
	if n, err := lookup(name); err == nil {
		if v, ok := number(n); ok {
			id = v
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if *known == nil || len(*known) >= maxOwners {
		*known = map[string]uint32{}
	}
	(*known)[s] = id
	if domain != "" {
		o.domain = domain
	}
	return id
}

// refused takes note that the server does not take a number for an owner (NFS4ERR_BADOWNER), and
// reports whether names can be sent instead.
func (o *owners) refused() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.names || o.domain == "" {
		return false
	}
	o.names = true
	return true
}

// ofUser is what is sent for a user.
func (o *owners) ofUser(uid uint32) string {
	return o.name(uid, func(id string) (string, error) {
		u, err := user.LookupId(id)
		if err != nil {
			return "", err
		}
		return u.Username, nil
	})
}

// ofGroup is what is sent for a group.
func (o *owners) ofGroup(gid uint32) string {
	return o.name(gid, func(id string) (string, error) {
		g, err := user.LookupGroupId(id)
		if err != nil {
			return "", err
		}
		return g.Name, nil
	})
}

func (o *owners) name(id uint32, lookup func(id string) (string, error)) string {
	s := strconv.FormatUint(uint64(id), 10)
	o.mu.Lock()
	names, domain := o.names, o.domain
	o.mu.Unlock()
	if !names {
		return s
	}
	if name, err := lookup(s); err == nil {
		return name + "@" + domain
	}
	return s
}
