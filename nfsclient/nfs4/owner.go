package nfs4

import (
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"time"
)

// nobody is who owns a file whose owner's name is not known here, unless Config.IDMap says otherwise, or whose owner the
// server does not tell.
const nobody = 65534

const (
	// maxOwners bounds the names that are remembered, and the numbers. Beyond, all are forgotten.
	maxOwners = 1 << 12
	// ownerLife is how long one is: an account may be made meanwhile. nfsidmap(8) has the same.
	ownerLife = 10 * time.Minute
)

// IDMap says how names of users and groups are understood, as idmapd.conf(5) does.
type IDMap struct {
	// Domain is the one whose names are those of this host's accounts. Without it those of every domain are, and
	// names are sent with the last that the server has named.
	Domain string
	// NobodyUser and NobodyGroup stand for who is not known; nil for 65534.
	NobodyUser, NobodyGroup *uint32
}

// owners turns the owners and groups of files into numbers and back (RFC 8881 section 5.9). With
// AUTH_SYS servers send decimal numbers, and so does the client, until a server refuses them.
type owners struct {
	conf IDMap
	// The accounts of this host; set before first use.
	userID, groupID     func(name string) (string, error)
	userName, groupName func(id string) (string, error)
	now                 func() time.Time

	mu                                       sync.Mutex
	userIDs, groupIDs, userNames, groupNames memory
	// domain is the last that the server has named.
	domain string
	// names: they are sent, and not numbers.
	names bool
}

// memory remembers answers to questions about accounts.
type memory map[string]remembered

type remembered struct {
	answer string // empty: there is none
	until  time.Time
}

func newOwners(conf IDMap) owners {
	return owners{conf: conf, now: time.Now,
		userID: func(name string) (string, error) {
			u, err := user.Lookup(name)
			if err != nil {
				return "", err
			}
			return u.Uid, nil
		},
		groupID: func(name string) (string, error) {
			g, err := user.LookupGroup(name)
			if err != nil {
				return "", err
			}
			return g.Gid, nil
		},
		userName: func(id string) (string, error) {
			u, err := user.LookupId(id)
			if err != nil {
				return "", err
			}
			return u.Username, nil
		},
		groupName: func(id string) (string, error) {
			g, err := user.LookupGroupId(id)
			if err != nil {
				return "", err
			}
			return g.Name, nil
		}}
}

// number is the decimal number s stands for. A leading zero or sign is part of a name.
func number(s string) (uint32, bool) {
	if s == "" || len(s) > 1 && s[0] == '0' || s[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err == nil
}

// ask asks for an account, or remembers. No lock is held meanwhile: the answer may come from a directory server.
func (o *owners) ask(m *memory, question string, lookup func(string) (string, error)) string {
	now := o.now()
	o.mu.Lock()
	r, ok := (*m)[question]
	o.mu.Unlock()
	if ok && now.Before(r.until) {
		return r.answer
	}
	answer, err := lookup(question)
	if err != nil {
		answer = ""
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if *m == nil || len(*m) >= maxOwners {
		*m = memory{}
	}
	(*m)[question] = remembered{answer, now.Add(ownerLife)}
	return answer
}

// uid is the number of an owner.
func (o *owners) uid(s string) uint32 { return o.find(&o.userIDs, s, o.userID, o.conf.NobodyUser) }

// gid is the number of a group.
func (o *owners) gid(s string) uint32 { return o.find(&o.groupIDs, s, o.groupID, o.conf.NobodyGroup) }

func (o *owners) find(m *memory, s string, lookup func(string) (string, error), unknown *uint32) uint32 {
	if n, ok := number(s); ok {
		return n
	}
	name, domain, _ := strings.Cut(s, "@")
	if domain != "" {
		o.mu.Lock()
		o.domain = domain
		o.mu.Unlock()
	}
	if domain == "" || o.conf.Domain == "" || strings.EqualFold(domain, o.conf.Domain) {
		if n, ok := number(o.ask(m, name, lookup)); ok {
			return n
		}
	}
	if unknown != nil {
		return *unknown
	}
	return nobody
}

// ofUser is what is sent for a user.
func (o *owners) ofUser(uid uint32, names bool) string {
	return o.name(&o.userNames, uid, names, o.userName)
}

// ofGroup is what is sent for a group.
func (o *owners) ofGroup(gid uint32, names bool) string {
	return o.name(&o.groupNames, gid, names, o.groupName)
}

func (o *owners) name(m *memory, id uint32, names bool, lookup func(string) (string, error)) string {
	s := strconv.FormatUint(uint64(id), 10)
	domain := o.sendDomain()
	if !names || domain == "" {
		return s
	}
	if name := o.ask(m, s, lookup); name != "" {
		return name + "@" + domain
	}
	return s
}

// sendDomain is the domain that names are sent with; empty if none is known.
func (o *owners) sendDomain() string {
	if o.conf.Domain != "" {
		return o.conf.Domain
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.domain
}

func (o *owners) sendsNames() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.names
}

// send has names, or numbers, sent from now on, and reports whether that is new.
func (o *owners) send(names bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.names
	o.names = names
	return was != names
}

// withOwners makes a call that may carry owners, as names or as numbers. If the server refuses the one
// (NFS4ERR_BADOWNER), having done nothing, the other is tried, and sent from then on if the server takes that.
func (c *Client) withOwners(call func(names bool) error) error {
	names := c.owners.sendsNames()
	err := call(names)
	if !isBadOwner(err) || !names && c.owners.sendDomain() == "" {
		return err
	}
	again := call(!names)
	if isBadOwner(again) {
		return err // that of an account which the server does not know
	}
	if c.owners.send(!names) {
		how := "numbers, and takes names of the domain " + c.owners.sendDomain()
		if names {
			how = "names of the domain " + c.owners.sendDomain() + ", and takes numbers"
		}
		c.cf.Log.Warn(fmt.Sprintf("%s: server does not take owners as %s (NFS4ERR_BADOWNER)", c.cf.Host, how))
	}
	return again
}
