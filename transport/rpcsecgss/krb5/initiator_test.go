package krb5

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/rdmafs/rdmafs/test/realm"
	"github.com/rdmafs/rdmafs/test/realm/gsspeer"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss"
)

// testClient is a Client of the realm for the user who runs the test.
func testClient(t *testing.T, r *realm.Realm, change func(*Config)) *Client {
	t.Helper()
	conf, err := LoadConf(r.Conf())
	if err != nil {
		t.Fatal(err)
	}
	uid := uint32(os.Geteuid())
	cf := Config{Conf: conf, Host: "localhost", Mounter: uid, Self: uid, MachineName: "client.test.lan", Dir: t.TempDir()}
	conf.LibDefaults.DefaultKeytabName = filepath.Join(cf.Dir, "none.keytab")
	if change != nil {
		change(&cf)
	}
	return NewClient(cf)
}

// meet has an initiator and an acceptor make a context, and both ends' tokens meet.
func meet(t *testing.T, u rpcsecgss.Initiator, a rpcsecgss.Acceptor) (rpcsecgss.Principal, time.Time) {
	t.Helper()
	token, finish, err := u.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reply, theirs, who, err := a.Accept(token)
	if err != nil {
		t.Fatal(err)
	}
	own, err := finish(reply)
	if err != nil {
		t.Fatal(err)
	}
	msg := []byte("message")
	if err := theirs.VerifyMIC(msg, own.AppendMIC(nil, msg)); err != nil {
		t.Error(err)
	}
	if err := own.VerifyMIC(msg, theirs.AppendMIC(nil, msg)); err != nil {
		t.Error(err)
	}
	if got, err := own.Unwrap(theirs.AppendWrap(nil, msg)); err != nil || !bytes.Equal(got, msg) {
		t.Error(err)
	}
	if got, err := theirs.Unwrap(own.AppendWrap(nil, msg)); err != nil || !bytes.Equal(got, msg) {
		t.Error(err)
	}
	return who, own.Expires()
}

// TestSources gets tickets from every place that may have them, and makes contexts.
func TestSources(t *testing.T) {
	r := realm.Start(t)
	r.AddUser("alice", "secret")
	r.AddUser("bob", "secret")
	a, err := NewAcceptor(r.AddService(realm.Service), service)
	if err != nil {
		t.Fatal(err)
	}
	uid := os.Geteuid()
	cache := r.Path("alice.cc")
	r.Kinit("alice", "secret", cache, time.Hour)
	who := func(name string, change func(*Config)) {
		t.Helper()
		c := testClient(t, r, change)
		got, end := meet(t, c.User(uint32(uid)), a)
		if got.String() != name+"@"+realm.Name || time.Until(end) < 0 || time.Until(end) > 25*time.Hour {
			t.Errorf("known as %s until %v, want %s", got, end, name)
		}
	}
	who("alice", func(cf *Config) { cf.CCache = "FILE:" + cache })
	who("alice", func(cf *Config) { cf.Environment = cache })
	who("alice", func(cf *Config) { cf.Environment = cache; cf.Principal = "alice" })
	who("alice", func(cf *Config) {
		cf.Conf.cacheName = "FILE:" + r.Path("%{null}")
		cf.CCache = strings.Replace(cache, "alice", "alice", 1)
	})

	// A ticket for the service is taken from the cache: the KDC is not needed.
	withTicket := r.Path("ticket.cc")
	r.Kinit("bob", "secret", withTicket, time.Hour)
	r.Ticket(withTicket, realm.Service)

	machine := r.AddService("host/client.test.lan")
	who("host/client.test.lan", func(cf *Config) { cf.Keytab = machine })
	if uid == 0 {
		who("host/client.test.lan", func(cf *Config) { cf.Conf.LibDefaults.DefaultKeytabName = "FILE:" + machine })
	}

	// In the usual place, and the one of several that lasts longest.
	who("bob", func(cf *Config) {
		copyFile(t, cache, fmt.Sprintf("%s/krb5cc_%d", cf.Dir, uid))
		long := r.Path("long.cc")
		r.Kinit("bob", "secret", long, 2*time.Hour)
		copyFile(t, long, fmt.Sprintf("%s/krb5cc_%d_Ab12", cf.Dir, uid))
	})
	// A directory, with and without a primary.
	who("alice", func(cf *Config) {
		copyFile(t, cache, filepath.Join(cf.Dir, "tkt"))
		cf.Environment = "DIR:" + cf.Dir
	})
	who("bob", func(cf *Config) {
		copyFile(t, cache, filepath.Join(cf.Dir, "tkt"))
		copyFile(t, withTicket, filepath.Join(cf.Dir, "tktbob"))
		if err := os.WriteFile(filepath.Join(cf.Dir, "primary"), []byte("tktbob\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cf.Environment = "DIR:" + cf.Dir
	})

	r.StopKDC()
	who("bob", func(cf *Config) { cf.Environment = withTicket })
	var hint *Error
	u := testClient(t, r, func(cf *Config) { cf.Environment = cache }).User(uint32(uid))
	if _, _, err := u.Start(t.Context()); !errors.As(err, &hint) || !strings.Contains(hint.Hint, "KDC") {
		t.Errorf("without a KDC: %v", err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestNoTicket walks the ways to have none. Each error says what to do.
func TestNoTicket(t *testing.T) {
	r := realm.Start(t)
	r.AddUser("alice", "secret")
	r.AddService(realm.Service)
	cache := r.Path("alice.cc")
	r.Kinit("alice", "secret", cache, time.Hour)
	uid := uint32(os.Geteuid())
	for name, tc := range map[string]struct {
		uid    uint32
		change func(*Config)
		want   string
	}{
		"nothing there": {uid, nil, "kinit"},
		"no such file":  {uid, func(cf *Config) { cf.Environment = "FILE:/nonexistent" }, "kinit"},
		"MEMORY":        {uid, func(cf *Config) { cf.Environment = "MEMORY:x" }, "caches of type MEMORY cannot be read: FILE, DIR, KEYRING and KCM can"},
		"expired": {uid, func(cf *Config) {
			cf.Environment = cache
			cf.Now = func() time.Time { return time.Now().Add(48 * time.Hour) }
		}, "expired"},
		"another's principal":   {uid, func(cf *Config) { cf.Environment = cache; cf.Principal = "bob" }, "kinit bob"},
		"a link":                {uid, func(cf *Config) { cf.Environment = link(t, cache) }, "symbolic link"},
		"writable by others":    {uid, func(cf *Config) { cf.Environment = withMode(t, cache, 0o622) }, "may be written"},
		"a directory":           {uid, func(cf *Config) { cf.Environment = cf.Dir }, "regular file"},
		"no cache":              {uid, func(cf *Config) { cf.Environment = r.Conf() }, "not a credential cache"},
		"owner is another":      {uid + 1, func(cf *Config) { cf.Self = 0; cf.Mounter = uid + 1; cf.Environment = cache }, "does not belong"},
		"another user, no root": {uid + 1, func(cf *Config) { cf.Self = uid + 7 }, "only the user who mounts"},
		"no such keytab":        {uid, func(cf *Config) { cf.Keytab = "/nonexistent" }, "krb5_keytab="},
		"no key":                {uid, func(cf *Config) { cf.Keytab = r.Path("nfs_localhost.keytab"); cf.Principal = "carol" }, "has no AES key of carol@" + realm.Name},
		"no such service":       {uid, func(cf *Config) { cf.Environment = cache; cf.Host = "elsewhere" }, "no such service"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := testClient(t, r, tc.change).User(tc.uid).Start(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v; want %q in it", err, tc.want)
			}
		})
	}
}

func link(t *testing.T, to string) string {
	t.Helper()
	l := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(to, l); err != nil {
		t.Fatal(err)
	}
	// The system's words for a link where none may be.
	return l
}

func withMode(t *testing.T, from string, mode os.FileMode) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "cc")
	copyFile(t, from, to)
	if err := os.Chmod(to, mode); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestTicketKept: one ticket serves until it is to be renewed, as long as the user's
// tickets are there.
func TestTicketKept(t *testing.T) {
	r := realm.Start(t)
	r.AddUser("alice", "secret")
	r.AddService(realm.Service)
	cache := r.Path("alice.cc")
	r.Kinit("alice", "secret", cache, time.Hour)
	now := time.Now()
	u := testClient(t, r, func(cf *Config) {
		cf.Environment = cache
		cf.Now = func() time.Time { return now }
	}).User(uint32(os.Geteuid()))
	get := func() *ticket {
		t.Helper()
		got, err := u.obtain(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := get()
	if get() != first {
		t.Error("asked the KDC again")
	}
	u.Forget()
	second := get()
	if second == first {
		t.Error("a ticket that was forgotten is kept")
	}
	r.StopKDC()
	now = now.Add(56 * time.Minute) // to be renewed, and there is no KDC
	if get() != second {
		t.Error("the ticket was not kept though the KDC is away")
	}
	r.Kdestroy(cache)
	if _, err := u.obtain(t.Context()); !errors.Is(err, errNoTicket) {
		t.Errorf("after kdestroy: %v", err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	u.busy <- struct{}{}
	if _, _, err := u.Start(done); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
}

// TestTicketOfNobody: a ticket comes from a cache that its user may have made himself.
func TestTicketOfNobody(t *testing.T) {
	made := messages.Ticket{TktVNO: 5, Realm: realm.Name, EncPart: types.EncryptedData{EType: aes256SHA1, Cipher: make([]byte, 64)}}
	b, err := made.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	e := entry{client: principal{realm: realm.Name, parts: []string{"alice"}}, ticket: b,
		key: types.EncryptionKey{KeyType: aes256SHA1, KeyValue: make([]byte, 32)}}
	got, err := e.parsed()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := initiate(got, time.Now()); err == nil || !strings.Contains(err.Error(), "names no service") {
		t.Errorf("%v; want that the ticket names no service", err)
	}
}

// TestTicketTooLong: a ticket that some user has put into his cache and that is longer than any is not sent: the server would close the
// connection of all users for it.
func TestTicketTooLong(t *testing.T) {
	_, who := testKeytab(t)
	for n, want := range map[int]bool{60 << 10: true, 64 << 10: false, 2 << 20: false} {
		long := made(types.PrincipalName{NameType: 2, NameString: []string{"nfs", "server"}}, "A.LAN")
		long.EncPart.Cipher = make([]byte, n)
		token, _, err := initiate(&ticket{who, long, sessionKey, time.Now().Add(time.Hour)}, time.Now())
		if (err == nil) != want || len(token) > rpcsecgss.MaxToken {
			t.Errorf("a ticket of %d bytes: a token of %d, %v", n, len(token), err)
		}
	}
}

// TestAnswers gives an initiator every answer that is not the acceptor's.
func TestAnswers(t *testing.T) {
	r := realm.Start(t)
	r.AddUser("alice", "secret")
	a, err := NewAcceptor(r.AddService(realm.Service), service)
	if err != nil {
		t.Fatal(err)
	}
	cache := r.Path("alice.cc")
	r.Kinit("alice", "secret", cache, time.Hour)
	u := testClient(t, r, func(cf *Config) { cf.Environment = cache }).User(uint32(os.Geteuid()))
	start := func() (reply []byte, finish func([]byte) (rpcsecgss.Tokens, error), theirs rpcsecgss.Tokens) {
		t.Helper()
		token, finish, err := u.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if reply, theirs, _, err = a.Accept(token); err != nil {
			t.Fatal(err)
		}
		return reply, finish, theirs
	}
	reply, finish, theirs := start()
	other, _, _ := start()
	if _, err := finish(other); !errors.Is(err, ErrRefused) {
		t.Errorf("the answer to another token: %v", err)
	}
	lax := 0
	for i := range len(reply) {
		bad := bytes.Clone(reply)
		bad[i] ^= 0x10
		k, err := finish(bad)
		if err == nil && theirs.VerifyMIC(nil, k.AppendMIC(nil, nil)) == nil {
			lax++ // a tag around what is encrypted: nobody is misled by it
		} else if !errors.Is(err, ErrRefused) || k != nil {
			t.Errorf("byte %d of the answer changed: %v", i, err)
		}
		if k, err := finish(reply[:i]); !errors.Is(err, ErrRefused) || k != nil {
			t.Errorf("the answer cut to %d bytes: %v", i, err)
		}
	}
	if lax > 10 {
		t.Errorf("%d bytes of the answer do not matter", lax)
	}
	token, _, _ := u.Start(t.Context())
	if _, err := finish(token); !errors.Is(err, ErrRefused) {
		t.Errorf("a token of one's own: %v", err)
	}
	if _, err := finish(reply); err != nil {
		t.Errorf("the answer itself: %v", err)
	}
}

// TestInitiatorWithMIT: MIT's acceptor makes contexts with this initiator, by session keys
// of each type.
func TestInitiatorWithMIT(t *testing.T) {
	r := realm.Start(t)
	r.AddUser("alice", "secret")
	cache := r.Path("alice.cc")
	r.Kinit("alice", "secret", cache, time.Hour)
	for e, name := range realm.AES {
		t.Run(name, func(t *testing.T) {
			host := fmt.Sprintf("host%d.test.lan", e)
			keytab := r.AddService("nfs/"+host, e)
			u := testClient(t, r, func(cf *Config) { cf.Environment, cf.Host = cache, host }).User(uint32(os.Geteuid()))
			token, finish, err := u.Start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p := gsspeer.Acceptor(t, r, keytab)
			reply, err := p.Accept(token)
			if err != nil {
				t.Fatal(err)
			}
			own, err := finish(reply)
			if err != nil {
				t.Fatal(err)
			}
			exchange(t, own, p)
			if u.have.key.KeyType != e {
				t.Errorf("session key of type %d", u.have.key.KeyType)
			}
		})
	}
}
