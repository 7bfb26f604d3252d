package krb5

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/realm"
)

// cacheOfMIT is a file that kinit and kvno have written.
func cacheOfMIT(t testing.TB) []byte {
	t.Helper()
	r := realm.Start(t)
	r.AddUser("alice", "secret")
	r.AddService(realm.Service)
	path := r.Path("alice.cc")
	r.Kinit("alice", "secret", path, time.Hour)
	r.Ticket(path, realm.Service)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCacheOfMIT reads a file of MIT's, whole, cut at every length, and with each length in it
// too large.
func TestCacheOfMIT(t *testing.T) {
	b := cacheOfMIT(t)
	c, err := parseCache(b)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	tgt := c.find(now, realm.Name, "krbtgt", realm.Name)
	svc := c.find(now, realm.Name, "nfs", "localhost")
	if c.client.String() != "alice@"+realm.Name || len(c.entries) != 2 || tgt == nil || svc == nil {
		t.Fatalf("cache of %s with %d tickets, %v and %v", c.client, len(c.entries), tgt, svc)
	}
	if left := tgt.end.Sub(now); left < 50*time.Minute || left > time.Hour || !svc.end.Equal(tgt.end) || svc.client.String() != c.client.String() {
		t.Errorf("valid for %v", left)
	}
	if c.find(now.Add(2*time.Hour), realm.Name, "nfs", "localhost") != nil || c.find(now, "OTHER", "nfs", "localhost") != nil ||
		c.find(now, realm.Name, "nfs/localhost") != nil || c.find(now.Add(-time.Hour), realm.Name, "nfs", "localhost") != nil {
		t.Error("found a ticket that is none")
	}
	if _, err := svc.parsed(); err != nil {
		t.Error(err)
	}
	whole := 0
	for n := range b {
		switch got, err := parseCache(b[:n]); {
		case err == nil && len(got.entries) < 2:
			whole++ // it ends between two entries
		case !errors.Is(err, errCache):
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	if whole > 4 {
		t.Errorf("%d of the files that are cut are whole", whole)
	}
	for i := 2; i+4 <= len(b); i++ {
		bad := bytes.Clone(b)
		copy(bad[i:], "\xff\xff\xff\xf0")
		_, _ = parseCache(bad) // it may be content; it must not be believed as a length
	}
}

func TestNoCache(t *testing.T) {
	for name, s := range map[string]string{
		"empty": "", "version 1": "\x05\x01", "version 2": "\x05\x02\x00\x00", "text": "hello world",
		"components":     "\x05\x03\x00\x00\x00\x01\xff\xff\xff\xff",
		"realm too long": "\x05\x03\x00\x00\x00\x01\x00\x00\x00\x00\x7f\xff\xff\xff",
		"header":         "\x05\x04\xff\xff",
	} {
		if c, err := parseCache([]byte(s)); !errors.Is(err, errCache) || c != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzCache(f *testing.F) {
	f.Add([]byte("\x05\x04\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01R\x00\x00\x00\x01a"))
	f.Add([]byte("\x05\x03\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01R"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseCache(b)
		if err != nil {
			return
		}
		for i := range c.entries {
			_, _ = c.entries[i].parsed()
		}
		c.find(time.Unix(1, 0), "R", "krbtgt", "R")
	})
}

func TestConfIncludes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir + "/" + name
	}
	if err := os.Mkdir(dir+"/d", 0o700); err != nil {
		t.Fatal(err)
	}
	write("d/realm", "[realms]\n A.LAN = {\n  kdc = 192.0.2.1\n }\n[domain_realm]\n .a.lan = A.LAN\n")
	write("d/.hidden.conf", "[realms]\n = broken")
	write("d/x.rpmsave", "[libdefaults]\n default_realm = B.LAN\n")
	c, err := LoadConf(write("krb5.conf", "includedir "+dir+"/d\n[libdefaults]\n default_realm = A.LAN\n default_ccache_name = FILE:/tmp/x_%{uid}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.LibDefaults.DefaultRealm != "A.LAN" || c.Realm("nfs.A.lan") != "A.LAN" || c.cacheName != "FILE:/tmp/x_%{uid}" || len(c.LibDefaults.DefaultTGSEnctypeIDs) != 4 {
		t.Errorf("%+v", c)
	}
	if _, kdcs, err := c.GetKDCs("A.LAN", true); err != nil || len(kdcs) != 1 {
		t.Errorf("KDCs %v, %v", kdcs, err)
	}
	if !c.LibDefaults.DNSLookupKDC {
		t.Error("KDCs are not looked for by DNS")
	}
	for name, text := range map[string]string{
		"missing include": "include " + dir + "/none\n",
		"loop":            "include " + dir + "/loop\n",
		"no AES":          "[libdefaults]\n permitted_enctypes = rc4-hmac\n default_tkt_enctypes = rc4-hmac\n default_tgs_enctypes = rc4-hmac\n",
	} {
		if _, err := LoadConf(write("loop", text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	named, err := LoadConf(write("named", "[libdefaults]\n default_tkt_enctypes = aes256-cts-hmac-sha384-192 rc4-hmac\n default_tgs_enctypes = aes256-cts-hmac-sha384-192\n dns_lookup_kdc = false\n"))
	if err != nil || named.LibDefaults.DNSLookupKDC || len(named.LibDefaults.DefaultTktEnctypeIDs) != 1 || named.LibDefaults.DefaultTktEnctypeIDs[0] != aes256SHA384 {
		t.Errorf("%v, %v", named, err)
	}
}

// TestOthersSessionCaches: files that others have made beside a user's do not hide his.
func TestOthersSessionCaches(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of others")
	}
	dir, own := t.TempDir(), ""
	for i := range maxSessions + 1 {
		own = fmt.Sprintf("%s/krb5cc_1000_%04d", dir, i)
		if err := os.WriteFile(own, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(own, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	if got := sessionCaches(dir, 1000); len(got) != 1 || got[0] != own {
		t.Errorf("%d caches, want %s alone", len(got), own)
	}
}
