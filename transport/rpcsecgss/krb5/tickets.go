package krb5

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jcmturner/gokrb5/v8/keytab"

	"github.com/rdmafs/rdmafs/transport/rpcsecgss"
)

// service is that of NFS servers (RFC 2623 section 2.3.2).
const service = "nfs"

// Config says where the tickets for a server come from.
type Config struct {
	Conf *Conf
	// Host is the server's name as its principal nfs/HOST has it.
	Host string
	// Keytab is a file of keys by which the mounting user, or this machine, is known. It is
	// looked for where Linux has it if it is empty and root mounts.
	Keytab string
	// Principal is who the mounting user is, in a keytab or cache that knows several, or to
	// make sure; empty: whoever is there.
	Principal string
	// CCache names the cache of tickets of the mounting user, or, with %{uid} in it, that
	// of each user; empty: the usual places.
	CCache string
	// Mounter is the user who mounts, and Environment KRB5CCNAME of the process that does.
	Mounter     uint32
	Environment string
	// Self is the user as whom this process runs. Only root can use others' tickets.
	Self uint32
	// MachineName is this host's, for the principals of a machine.
	MachineName string
	// Now is the time, for tests; nil means time.Now. Dir is in place of /tmp for them.
	Now func() time.Time
	Dir string
}

// Client gets tickets for one server.
type Client struct {
	cf   Config
	keys *keyFile // nil without a keytab
}

// NewClient returns a Client. Tickets are looked for when they are needed.
func NewClient(cf Config) *Client {
	if cf.Now == nil {
		cf.Now = time.Now
	}
	if cf.Dir == "" {
		cf.Dir = "/tmp"
	}
	c := &Client{cf: cf}
	path := cf.Keytab
	if path == "" && cf.Mounter == 0 && cf.Self == 0 && cf.CCache == "" {
		path = strings.TrimPrefix(cf.Conf.LibDefaults.DefaultKeytabName, "FILE:")
	}
	if path != "" {
		c.keys = &keyFile{path: path}
	}
	return c
}

// User is one user's Initiator.
type User struct {
	c   *Client
	uid uint32
	// busy holds a token while somebody gets a ticket, which may take long.
	busy chan struct{}
	// forgotten: have is not to be used any more.
	forgotten atomic.Bool

	// Guarded by busy.
	have  *ticket
	renew time.Time // when another is to be got
}

var _ rpcsecgss.Initiator = (*User)(nil)

// User returns the Initiator of a user.
func (c *Client) User(uid uint32) *User {
	return &User{c: c, uid: uid, busy: make(chan struct{}, 1)}
}

// Start implements rpcsecgss.Initiator. With ctx an exchange with a KDC ends; without, it
// takes six seconds for each KDC and realm at most.
func (u *User) Start(ctx context.Context) ([]byte, func([]byte) (rpcsecgss.Tokens, error), error) {
	t, err := u.obtain(ctx)
	if err != nil {
		return nil, nil, err
	}
	return initiate(t, u.c.cf.Now())
}

// Forget implements rpcsecgss.Forgetter: the server may have new keys.
func (u *User) Forget() { u.forgotten.Store(true) }

// Ticket is what is worth knowing of a ticket for the server.
type Ticket struct {
	Client  string
	End     time.Time
	Enctype string // of the session key
}

// Ticket gets one for the user.
func (u *User) Ticket(ctx context.Context) (Ticket, error) {
	t, err := u.obtain(ctx)
	if err != nil {
		return Ticket{}, err
	}
	return Ticket{t.client.String(), t.end, enctypes[t.key.KeyType].name}, nil
}

// obtain is the user's ticket for the server: that of before as long as its tickets are
// still there, and else another.
func (u *User) obtain(ctx context.Context) (*ticket, error) {
	select {
	case u.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-u.busy }()
	if u.forgotten.Swap(false) {
		u.have = nil
	}
	now := u.c.cf.Now()
	t, ask, err := u.get(ctx, now)
	if ask != nil {
		if t, err = ask(ctx); err != nil && u.have != nil && now.Before(u.have.end) {
			return u.have, nil // as good as long as it lasts: a KDC may be away
		}
	}
	if err != nil {
		return nil, err
	}
	u.keep(t, now)
	return t, nil
}

// keep keeps t for later calls. The caller holds the token in busy.
func (u *User) keep(t *ticket, now time.Time) {
	if t != u.have {
		u.have = t
		u.renew = t.end.Add(-min(5*time.Minute, t.end.Sub(now)/10))
	}
}

// keepOnlyOf drops the ticket that is kept if it is another client's: the user has become
// someone else, and must not go on as before for want of a KDC. The caller holds the token
// in busy.
func (u *User) keepOnlyOf(who principal) {
	if u.have != nil && u.have.client.String() != who.String() {
		u.have = nil
	}
}

// asking gets a ticket from a KDC.
type asking func(ctx context.Context) (*ticket, error)

// get is the ticket that is there, or what asks a KDC for one. The caller holds the token in
// busy.
func (u *User) get(ctx context.Context, now time.Time) (t *ticket, ask asking, err error) {
	c := u.c
	own := u.uid == c.cf.Mounter
	if !own && c.cf.Self != 0 {
		return nil, nil, &Error{fmt.Errorf("the mount runs as user %d: %w", c.cf.Self, errNotOwn), "root can mount for all users"}
	}
	var noKeys error
	if own && c.keys != nil {
		t, ask, err := u.byKeytab(now)
		if err == nil || c.cf.Keytab != "" || !errors.Is(err, errNoKey) && !errors.Is(err, os.ErrNotExist) {
			return t, ask, err
		}
		noKeys = err // there is none for this machine; root may have tickets
	}
	name, found, errs := c.best(ctx, u.uid, own, now)
	if found == nil {
		return nil, nil, c.noTicket(u.uid, own, errors.Join(append(errs, noKeys)...))
	}
	if p := c.cf.Principal; own && p != "" && found.client.String() != c.qualified(p) {
		return nil, nil, &Error{fmt.Errorf("%s has the tickets of %s, not of %s", name, found.client, c.qualified(p)), "kinit " + p}
	}
	u.keepOnlyOf(found.client)
	if u.have != nil && now.Before(u.renew) {
		return u.have, nil, nil
	}
	realm := c.cf.Conf.Realm(c.cf.Host)
	if realm == "" {
		realm = found.client.realm
	}
	tgt := found.find(now, found.client.realm, "krbtgt", found.client.realm)
	if e := found.find(now, realm, service, c.cf.Host); e != nil && !e.end.Before(tgt.end) {
		t, err := e.parsed()
		return t, nil, err
	}
	granting, err := tgt.parsed()
	if err != nil {
		return nil, nil, err
	}
	return nil, func(ctx context.Context) (*ticket, error) {
		return serviceTicket(ctx, c.cf.Conf, granting, realm, []string{service, c.cf.Host})
	}, nil
}

// caches are where a user's tickets may be.
func (c *Client) caches(uid uint32, own bool) (names []string) {
	add := func(name string) {
		if name, ok := expandUser(name, uid); ok && name != "" {
			names = append(names, name)
		}
	}
	if named := c.cf.CCache; named != "" && (own || strings.Contains(named, "%{")) {
		add(named)
		return names
	}
	if own && c.cf.Environment != "" {
		add(c.cf.Environment)
		return names
	}
	add(c.cf.Conf.cacheName)
	add(c.cf.Dir + "/krb5cc_%{uid}")
	return append(names, sessionCaches(c.cf.Dir, uid)...)
}

// noTicket is the error of a user without tickets.
func (c *Client) noTicket(uid uint32, own bool, why error) error {
	names := strings.Join(c.caches(uid, own), ", ")
	err := fmt.Errorf("%w in %s", errNoTicket, names)
	if why != nil {
		err = fmt.Errorf("%w: %w", errNoTicket, why)
	}
	hint := fmt.Sprintf("user %d: run kinit", uid)
	if own && uid == 0 && c.cf.Keytab == "" {
		hint = "put a key of this machine into /etc/krb5.keytab, or name one by krb5_keytab=; or run kinit as root"
	}
	return &Error{err, hint}
}

// errNoKey: a keytab has no key that would do.
var errNoKey = errors.New("no key of this machine")

// byKeytab is get by a key of the keytab.
func (u *User) byKeytab(now time.Time) (t *ticket, ask asking, err error) {
	c := u.c
	kt, err := c.keys.load()
	if err != nil {
		return nil, nil, &Error{err, "krb5_keytab= names the file"}
	}
	who, err := c.machine(kt)
	if err != nil {
		return nil, nil, err
	}
	u.keepOnlyOf(who)
	if u.have != nil && now.Before(u.renew) {
		return u.have, nil, nil
	}
	return nil, func(ctx context.Context) (*ticket, error) {
		granting, err := login(ctx, c.cf.Conf, kt, who)
		if err != nil {
			return nil, err
		}
		return serviceTicket(ctx, c.cf.Conf, granting, c.cf.Conf.Realm(c.cf.Host), []string{service, c.cf.Host})
	}, nil
}

// qualified is a principal's name with its realm.
func (c *Client) qualified(name string) string {
	if strings.Contains(name, "@") {
		return name
	}
	return name + "@" + c.cf.Conf.LibDefaults.DefaultRealm
}

// machine chooses the principal of a keytab: the one that is asked for, or that of this
// machine, in the order of Linux' rpc.gssd: HOST$, then root/, nfs/ and host/ of this
// host, then of any.
func (c *Client) machine(kt *keytab.Keytab) (principal, error) {
	host := strings.ToLower(c.cf.MachineName)
	short, _, _ := strings.Cut(host, ".")
	rank := func(p principal) int {
		switch {
		case c.cf.Principal != "":
			if p.String() == c.qualified(c.cf.Principal) {
				return 1
			}
			return 0
		case len(p.parts) == 1 && p.parts[0] == strings.ToUpper(short)+"$":
			return 1
		case len(p.parts) == 1 && strings.EqualFold(p.parts[0], short+"$"):
			return 2
		case len(p.parts) != 2:
			return 0
		}
		kind := map[string]int{"root": 3, "nfs": 4, "host": 5}[p.parts[0]]
		if kind == 0 {
			return 0
		}
		if name := strings.ToLower(p.parts[1]); name != host && name != short && !strings.HasPrefix(name, short+".") {
			kind += 3
		}
		return kind
	}
	var best principal
	first := 0
	var names []string
	for _, e := range kt.Entries {
		p := principal{kind: 1, realm: e.Principal.Realm, parts: e.Principal.Components}
		if _, aes := enctypes[e.Key.KeyType]; !aes {
			continue
		}
		if k := rank(p); k > 0 && (first == 0 || k < first) {
			best, first = p, k
		}
		if n := len(names); n == 0 || names[n-1] != p.String() {
			names = append(names, p.String())
		}
	}
	if first > 0 {
		return best, nil
	}
	what, hint := fmt.Errorf("%w in %s", errNoKey, c.keys.path), "krb5_principal= names one"
	if c.cf.Principal != "" {
		what, hint = fmt.Errorf("%w: %s has no AES key of %s", errNoKey, c.keys.path, c.qualified(c.cf.Principal)), ""
	}
	if len(names) > 0 {
		what = fmt.Errorf("%w, which has those of %s", what, strings.Join(names[:min(len(names), 8)], ", "))
	}
	return best, &Error{what, hint}
}
