package krb5

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/realm"
)

// TestExamine looks at a realm where everything is there, and where something is missing.
func TestExamine(t *testing.T) {
	r := realm.Start(t)
	r.AddUser("alice", "secret")
	r.AddService(realm.Service)
	cache := r.Path("alice.cc")
	r.Kinit("alice", "secret", cache, time.Hour)
	machine := r.AddService("host/client.test.lan")
	found := func(change func(*Config)) (s string) {
		for _, f := range testClient(t, r, change).Examine(t.Context()) {
			s += fmt.Sprintf("%s: %s%v (%s)\n", f.Name, f.Detail, f.Err, f.Warning)
		}
		return strings.ReplaceAll(s, "<nil>", "")
	}
	says := func(what string, change func(*Config), words ...string) {
		t.Helper()
		s := found(change)
		for _, w := range words {
			if !strings.Contains(s, w) {
				t.Errorf("%s:\n%sdoes not say %q", what, s, w)
			}
		}
	}
	says("all there", func(cf *Config) { cf.Environment = cache }, "realm: "+realm.Name, "service: nfs/localhost@", "answers", "clock: differs from the KDC's by 0s",
		"ticket: of alice@"+realm.Name+" for nfs/localhost, until ", "with a key of aes256-cts-hmac-sha384-192")
	says("keytab", func(cf *Config) { cf.Keytab = machine }, "keytab: "+machine+" has keys of host/client.test.lan@"+realm.Name+": aes128-cts-hmac-sha1-96, ")
	if s := found(func(cf *Config) { cf.Keytab = machine }); strings.Contains(s, "chmod") {
		t.Errorf("a keytab of its owner alone:\n%s", s)
	}
	if err := os.Chmod(machine, 0o644); err != nil {
		t.Fatal(err)
	}
	says("keytab of all", func(cf *Config) { cf.Keytab = machine }, "(chmod 600 "+machine)
	says("no keytab", func(cf *Config) { cf.Keytab = "/nonexistent" }, "keytab: ", "krb5_keytab=")
	says("no ticket", nil, "ticket: no Kerberos ticket", "kinit")
	says("clock", func(cf *Config) {
		cf.Environment = cache
		cf.Now = func() time.Time { return time.Now().Add(-10 * time.Minute) }
	}, "clock: this host and the KDC differ by 10m0s", "set the clock")
	says("no realm", func(cf *Config) { cf.Conf.LibDefaults.DefaultRealm, cf.Host = "", "elsewhere" }, "realm: ", "default_realm")

	r.StopKDC()
	says("no KDC", func(cf *Config) { cf.Environment = cache }, "KDC: ", "can the KDC of "+realm.Name+" be reached")
	_ = os.Remove(cache)
}
