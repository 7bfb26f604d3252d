package krb5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/realm"
)

// stranger is a user whom this host does not know.
const stranger = 471100

// mitUser runs MIT's programs as a user, with a realm's configuration in a directory that
// this user may enter.
type mitUser struct {
	t    *testing.T
	uid  uint32
	dir  string
	conf string
}

func newMITUser(t *testing.T, r *realm.Realm, uid uint32, more string) *mitUser {
	t.Helper()
	dir, err := os.MkdirTemp("", "rdmafs-krb5")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	text, err := os.ReadFile(r.Conf())
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	u := &mitUser{t, uid, dir, dir + "/krb5.conf"}
	if err == nil {
		err = os.WriteFile(u.conf, []byte(strings.Replace(string(text), "[libdefaults]\n", "[libdefaults]\n"+strings.ReplaceAll(more, "DIR", dir), 1)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (u *mitUser) run(input, name string, args ...string) {
	u.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Stdin, cmd.Dir = append(os.Environ(), "KRB5_CONFIG="+u.conf), strings.NewReader(input), "/"
	if u.uid != uint32(os.Geteuid()) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.uid, Gid: u.uid}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		u.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// fill gets a user's tickets into a cache: that for the KDC, and one for the service.
func (u *mitUser) fill(cache, user string) {
	u.t.Helper()
	u.run("secret\n", "kinit", "-c", cache, user)
	u.run("", "kvno", "-c", cache, realm.Service)
}

// needKeyrings skips a test where the kernel has no keyrings, or a container refuses them.
func needKeyrings(t *testing.T) {
	t.Helper()
	if _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, true); err != nil {
		t.Skipf("keyctl(KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING): %v", err)
	}
}

// forgetKeys unlinks a key from a keyring of this user.
func forgetKeys(ring int, name string) {
	onOwnThread(func() {
		if ring == unix.KEY_SPEC_USER_KEYRING {
			_ = possess(ring)
		}
		if id, err := unix.KeyctlSearch(ring, "keyring", name, 0); err == nil {
			_, _ = unix.KeyctlInt(unix.KEYCTL_UNLINK, id, ring, 0, 0)
		}
	})
}

// TestKeyringOfMIT reads caches that MIT's programs have written, of this user, and, as
// root, in another's persistent keyring.
func TestKeyringOfMIT(t *testing.T) {
	needKeyrings(t)
	r := realm.Start(t)
	r.AddUser("alice", "secret")
	r.AddUser("bob", "secret")
	r.AddService(realm.Service)
	self := uint32(os.Geteuid())
	name := fmt.Sprintf("rdmafs-%d", os.Getpid())
	forget := func() {
		for _, n := range []string{"_krb_" + name, name} {
			forgetKeys(unix.KEY_SPEC_USER_KEYRING, n)
			forgetKeys(unix.KEY_SPEC_SESSION_KEYRING, n)
		}
	}
	t.Cleanup(forget)
	has := func(c *Client, uid uint32, cache, user string) {
		t.Helper()
		got, err := c.readCache(t.Context(), cache, uid)
		if err != nil {
			t.Errorf("%s: %v", cache, err)
			return
		}
		now := time.Now()
		tgt, svc := got.find(now, realm.Name, "krbtgt", realm.Name), got.find(now, realm.Name, "nfs", "localhost")
		if got.client.String() != user+"@"+realm.Name || len(got.entries) != 2 || tgt == nil || svc == nil {
			t.Errorf("%s: cache of %s with %d tickets, %v and %v", cache, got.client, len(got.entries), tgt, svc)
			return
		}
		for _, e := range []*entry{tgt, svc} {
			if _, err := e.parsed(); err != nil {
				t.Errorf("%s: %v", cache, err)
			}
		}
	}
	none := func(c *Client, uid uint32, cache string) {
		t.Helper()
		if got, err := c.readCache(t.Context(), cache, uid); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v, %v; want that there is none", cache, got, err)
		}
	}
	own, c := newMITUser(t, r, self, ""), testClient(t, r, nil)
	for _, anchor := range []string{"user:", "session:", "legacy:", ""} {
		cache := "KEYRING:" + anchor + name
		none(c, self, cache)
		own.fill(cache, "alice")
		has(c, self, cache, "alice")
		if anchor != "" {
			has(c, self, cache+":"+name, "alice")
			own.fill(cache+":second", "bob")
			has(c, self, cache, "alice")
			own.run("", "kswitch", "-c", cache+":second")
			has(c, self, cache, "bob")
			none(c, self, cache+":third")
			own.run("", "kdestroy", "-c", cache+":second")
			none(c, self, cache)
		}
		own.run("", "kdestroy", "-c", cache+map[bool]string{true: ":" + name}[anchor != ""])
		forget()
	}
	mine := fmt.Sprintf("KEYRING:persistent:%d:%s", self, name)
	own.fill(mine, "alice")
	has(c, self, mine, "alice")
	has(c, self, "KEYRING:persistent::"+name, "alice")
	own.run("", "kdestroy", "-c", mine)

	if self != 0 {
		t.Log("another user's persistent keyring was not tried: only root can read it")
		return
	}
	other := newMITUser(t, r, stranger, "")
	his := fmt.Sprintf("KEYRING:persistent:%d", stranger)
	empty := func() {
		onOwnThread(func() {
			if id, err := unix.KeyctlInt(unix.KEYCTL_GET_PERSISTENT, stranger, unix.KEY_SPEC_THREAD_KEYRING, 0, 0); err == nil {
				_, _ = unix.KeyctlInt(unix.KEYCTL_CLEAR, id, 0, 0, 0)
			}
		})
	}
	t.Cleanup(empty)
	own.run("secret\n", "kinit", "-c", his, "alice") // root's keys in his keyring
	if got, err := c.readCache(t.Context(), his, stranger); !errors.Is(err, errForeign) || !strings.Contains(err.Error(), "the keyring _krb is user 0") {
		t.Errorf("%s, made by root: %v, %v", his, got, err)
	}
	empty()
	none(c, stranger, his)
	other.fill(his, "bob")
	has(c, stranger, his, "bob")
	r.StopKDC()
	conf := testClient(t, r, func(cf *Config) { cf.Conf.cacheName = "KEYRING:persistent:%{uid}" })
	if got, err := conf.User(stranger).Ticket(t.Context()); err != nil || got.Client != "bob@"+realm.Name {
		t.Errorf("%+v, %v", got, err)
	}
	other.run("", "kdestroy", "-c", his)
	if _, err := conf.User(stranger).Ticket(t.Context()); !errors.Is(err, errNoTicket) {
		t.Errorf("after kdestroy: %v", err)
	}
}

// index is the key that names the primary cache of a collection.
func index(version uint32, name string) []byte {
	b := binary.BigEndian.AppendUint32(nil, version)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(name))), name...)
}

var (
	madePrincipal = []byte("\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01R\x00\x00\x00\x01a")
	madeTicket    = joined(madePrincipal, madePrincipal, // client, server
		[]byte("\x00\x12\x00\x00\x00\x02kk"), make([]byte, 4*4+1+4), // key, times, is_skey, flags
		make([]byte, 4+4), []byte("\x00\x00\x00\x02tt\x00\x00\x00\x00")) // addresses, data, tickets
)

func joined(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// longTicket is a ticket of 32000 bytes.
var longTicket = joined(madeTicket[:len(madeTicket)-10], []byte("\x00\x00\x7d\x00"), make([]byte, 32000), make([]byte, 4))

// TestKeyringRefuses: keys of a user may hold anything, and may not be his.
func TestKeyringRefuses(t *testing.T) {
	needKeyrings(t)
	self := uint32(os.Geteuid())
	type item struct {
		kind, name string
		payload    []byte
		owner      int
	}
	princ, tkt := item{"user", keyPrincipal, madePrincipal, 0}, item{"user", "a@R", madeTicket, 0}
	primary := item{"user", keyPrimary, index(1, "x"), 0}
	var much []item
	for i := range 200 {
		much = append(much, item{"user", fmt.Sprint(i), longTicket, 0})
	}
	for name, tc := range map[string]struct {
		collection, cache []item
		root              bool
		want              string
	}{
		"a cache":             {[]item{primary}, []item{princ, tkt}, false, ""},
		"with other keys":     {[]item{primary}, []item{princ, tkt, {"logon", "a:b", []byte("x"), 0}, {"user", keyTimeOffsets, []byte("x"), 0}}, false, ""},
		"no primary":          {nil, []item{princ}, false, "no such cache"},
		"primary cut short":   {[]item{{"user", keyPrimary, index(1, "x")[:6], 0}}, nil, false, "or damaged"},
		"primary too long":    {[]item{{"user", keyPrimary, []byte("\x00\x00\x00\x01\xff\xff\xff\xffx"), 0}}, nil, false, "or damaged"},
		"primary version":     {[]item{{"user", keyPrimary, index(2, "x"), 0}}, nil, false, "not of version 1"},
		"primary without end": {[]item{{"user", keyPrimary, index(1, strings.Repeat("x", maxPrimary)), 0}}, nil, false, "too long"},
		"other primary":       {[]item{{"user", keyPrimary, index(1, "y"), 0}}, []item{princ}, false, "no such cache"},
		"no principal":        {[]item{primary}, []item{tkt}, false, "no principal"},
		"principal damaged":   {[]item{primary}, []item{{"user", keyPrincipal, madePrincipal[:10], 0}}, false, "principal is damaged"},
		"principal too long":  {[]item{primary}, []item{{"user", keyPrincipal, append(bytes.Clone(madePrincipal), 0), 0}}, false, "principal is damaged"},
		"ticket damaged":      {[]item{primary}, []item{princ, {"user", "a@R", madeTicket[:30], 0}}, false, "ticket is damaged"},
		"ticket too long":     {[]item{primary}, []item{princ, {"user", "a@R", append(bytes.Clone(madeTicket), 0), 0}}, false, "ticket is damaged"},
		"too much":            {[]item{primary}, append(much, princ), true, "more than"},
		"another's primary":   {[]item{{"user", keyPrimary, index(1, "x"), stranger}}, []item{princ}, true, "does not belong"},
		"another's ticket":    {[]item{primary}, []item{princ, tkt, {"user", "b@R", madeTicket[:30], stranger}}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.root && self != 0 {
				t.Skip("only root can make that")
			}
			collection := fmt.Sprintf("rdmafs-%d", os.Getpid())
			t.Cleanup(func() { forgetKeys(unix.KEY_SPEC_USER_KEYRING, "_krb_"+collection) })
			var err error
			onOwnThread(func() {
				add := func(ring int, i item) (id int) {
					if id, err = unix.AddKey(i.kind, i.name, i.payload, ring); err == nil && i.owner != 0 {
						_, err = unix.KeyctlInt(unix.KEYCTL_CHOWN, id, i.owner, -1, 0)
					}
					return id
				}
				all := func(ring int, items []item) {
					for _, i := range items {
						if err == nil {
							add(ring, i)
						}
					}
				}
				if err = possess(unix.KEY_SPEC_USER_KEYRING); err != nil {
					return
				}
				if ring := add(unix.KEY_SPEC_USER_KEYRING, item{kind: "keyring", name: "_krb_" + collection}); err == nil {
					all(ring, tc.collection)
					if cache := add(ring, item{kind: "keyring", name: "x"}); err == nil {
						all(cache, tc.cache)
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			c, err := readKeyring("user:"+collection, self, self)
			if tc.want == "" && (err != nil || c.client.String() != "a@R" || len(c.entries) != 1) || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%+v, %v; want %q", c, err, tc.want)
			}
		})
	}
	for residual, want := range map[string]string{
		"process:x": `keyrings "process" cannot be read`, "thread:x": `"thread" cannot be read`, "other:x:y": "cannot be read",
		fmt.Sprintf("persistent:%d", self+1): "does not belong", "persistent:x": "does not belong", "persistent:-1": "does not belong",
	} {
		if _, err := readKeyring(residual, self, self); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", residual, err, want)
		}
	}
	for _, residual := range []string{"user:x", "session:x", "x"} {
		if _, err := readKeyring(residual, self+1, self); err == nil || !strings.Contains(err.Error(), "persistent one can") {
			t.Errorf("%s of another user: %v", residual, err)
		}
	}
}
