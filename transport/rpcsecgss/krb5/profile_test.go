package krb5

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func loadText(t *testing.T, text string) (*Conf, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "krb5.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := LoadConf(path)
	if err != nil && !strings.Contains(err.Error(), path) {
		t.Errorf("the error does not name the file: %v", err)
	}
	return c, err
}

// TestConfOfSystems: files as distributions and directory services write them, with what is for other programs, are read, and what
// comes first counts.
func TestConfOfSystems(t *testing.T) {
	aes := []int32{aes256SHA1, aes128SHA1, aes256SHA384, aes128SHA256}
	for name, c := range map[string]struct {
		text      string
		realm     string // of nfs.example.com
		kdcs      []string
		enctypes  []int32
		life      time.Duration
		canonical string // of server and nfs.example.com, those that DNS is asked about
		cache     string
	}{
		"Fedora and RHEL": {text: `# comment
[logging]
    default = FILE:/var/log/krb5libs.log
[libdefaults]
    dns_lookup_realm = false
    ticket_lifetime = 24h
    renew_lifetime = 7d
    rdns = false
    pkinit_anchors = FILE:/etc/pki/tls/certs/ca-bundle.crt
    spake_preauth_groups = edwards25519
    dns_canonicalize_hostname = fallback
    qualify_shortname = ""
    default_realm = EXAMPLE.COM
    default_ccache_name = KEYRING:persistent:%{uid}
[realms]
 EXAMPLE.COM = {
     kdc = kerberos.example.com
     admin_server = kerberos.example.com
 }
[domain_realm]
 .example.com = EXAMPLE.COM
`, realm: "EXAMPLE.COM", kdcs: []string{"kerberos.example.com:88"}, enctypes: aes, life: 24 * time.Hour, canonical: "server", cache: "KEYRING:persistent:%{uid}"},
		"Active Directory": {text: `[libdefaults]
 default_realm = AD.EXAMPLE.COM
 dns_canonicalize_hostname = false
 ticket_lifetime = 10:30
 [realms]
 AD.EXAMPLE.COM = {
  auth_to_local = RULE:[1:$1@$0](.*@AD)s/@.*//
  auth_to_local_names = {
   alice = a
   kdc = none
  }
  kdc = dc1.ad.example.com:88
  kdc = [fd00::1]
 }
[plugins]
 localauth = {
  module = sssd:/usr/lib64/sssd/modules/sssd_krb5_localauth_plugin.so
 }
[domain_realm]
 Example.Com = WRONG
 .Example.Com = AD.EXAMPLE.COM
`, realm: "AD.EXAMPLE.COM", kdcs: []string{"dc1.ad.example.com:88", "[fd00::1]:88"}, enctypes: aes, life: 10*time.Hour + 30*time.Minute},
		"SHA-2 alone, by a policy that comes first": {text: `[libdefaults]
permitted_enctypes = aes256-cts-hmac-sha384-192 aes128-cts-hmac-sha256-128 camellia256-cts-cmac
default_realm = A
[libdefaults]
default_realm = B
permitted_enctypes = aes256-cts
`, realm: "A", enctypes: []int32{aes256SHA384, aes128SHA256}, life: 24 * time.Hour, canonical: "server nfs.example.com"},
		"lists with signs": {text: "[libdefaults]\ndefault_realm = \"A\"\npermitted_enctypes = DEFAULT, +aes -aes128-cts des3-cbc-sha1\nticket_lifetime = soon\nudp_preference_limit = many\ndns_canonicalize_hostname = perhaps\n",
			realm: "A", enctypes: []int32{aes256SHA1, aes256SHA384, aes128SHA256}, life: 24 * time.Hour, canonical: "server nfs.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := loadText(t, c.text)
			if err != nil {
				t.Fatal(err)
			}
			got.LibDefaults.DNSLookupKDC = false
			kdcs, err := got.kdcs(t.Context(), c.realm, "tcp")
			if !slices.Equal(kdcs, c.kdcs) || (err != nil) != (len(c.kdcs) == 0) {
				t.Errorf("KDCs %v, %v", kdcs, err)
			}
			asked := slices.DeleteFunc([]string{"server", "nfs.example.com"}, func(host string) bool { return !got.Canonicalize(host) })
			l := got.LibDefaults
			if r := got.Realm("nfs.example.com"); r != c.realm || !slices.Equal(l.DefaultTGSEnctypeIDs, c.enctypes) || !slices.Equal(l.DefaultTktEnctypeIDs, c.enctypes) ||
				l.TicketLifetime != c.life || strings.Join(asked, " ") != c.canonical || got.cacheName != c.cache || l.UDPPreferenceLimit != 1465 {
				t.Errorf("realm %s, enctypes %v and %v, tickets of %v, DNS for %q, cache %q, %d by UDP", r, l.DefaultTGSEnctypeIDs, l.DefaultTktEnctypeIDs, l.TicketLifetime, asked, got.cacheName, l.UDPPreferenceLimit)
			}
		})
	}
}

// TestConfMalformed: braces and brackets without a counterpart are an error, which says where.
func TestConfMalformed(t *testing.T) {
	for text, where := range map[string]string{
		"[realms]\n A = {\n  kdc = {\n }\n}\n}\n": "line 6",
		"[realms]\n}\n":         "line 2",
		"[realms]\n A = {\n":    "at the end",
		"[realms\n":             "line 1",
		"[realms]\n A = {\n[x]": "line 3",
		"[a]\n" + strings.Repeat("b = {\n", 9) + strings.Repeat("}\n", 9): "line 9",
	} {
		if c, err := loadText(t, text); err == nil || c != nil || !strings.Contains(err.Error(), where) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestSpans(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"36000": 10 * time.Hour, "10h": 10 * time.Hour, "1d 12h 30m": 36*time.Hour + 30*time.Minute, "90s": 90 * time.Second, "1:30": 90 * time.Minute, "1:00:01": time.Hour + time.Second,
		"": 0, "0": 0, "-1d": 0, "soon": 0, "1w": 0, "9999999999d": 0, "4000d": 0, "1:x": 0, "h": 0, "1d 4294967296s": 0,
	} {
		if got, ok := parseSpan(s); ok != (want > 0) || ok && got != want {
			t.Errorf("%q: %v, %t", s, got, ok)
		}
	}
}
