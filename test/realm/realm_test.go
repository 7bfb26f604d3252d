package realm

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestRealm(t *testing.T) {
	r := Start(t)
	r.AddUser("alice", "secret")
	for e, name := range AES {
		keytab := r.AddService("nfs/"+name, e)
		if out := r.must("", "klist", "-k", "-e", keytab); strings.Count(out, "nfs/"+name+"@") != 1 || !strings.Contains(out, "("+name+")") {
			t.Errorf("keytab for %s:\n%s", name, out)
		}
	}
	cache := r.Path("cc")
	r.Kinit("alice", "secret", cache, 0)
	for _, name := range AES {
		r.Ticket(cache, "nfs/"+name)
	}
	out := r.must("", "klist", "-e", "-c", "FILE:"+cache)
	for _, name := range AES {
		if !strings.Contains(out, "Etype (skey, tkt): "+name+", "+name) {
			t.Errorf("no ticket with a session key of %s:\n%s", name, out)
		}
	}
	r.Kdestroy(cache)
	if _, err := os.Stat(cache); !os.IsNotExist(err) {
		t.Errorf("after kdestroy: %v", err)
	}
	if _, err := r.run("wrong\n", "kinit", "-c", "FILE:"+cache, "alice"); err == nil {
		t.Error("a wrong password is good")
	}
}

func TestKDCStopsAndStarts(t *testing.T) {
	r := Start(t)
	r.AddUser("bob", "secret")
	r.StopKDC()
	if _, err := r.run("secret\n", "kinit", "-c", "FILE:"+r.Path("cc"), "bob"); err == nil {
		t.Fatal("kinit without a KDC")
	}
	r.StartKDC()
	r.Kinit("bob", "secret", r.Path("cc"), 10*time.Second)
	r.AddService(Service)
	r.Ticket(r.Path("cc"), Service)
	r.Rekey(Service)
	if out := r.must("", "klist", "-k", r.Path("nfs_localhost.keytab")); strings.Count(out, Service) != 8 {
		t.Errorf("after a change of keys:\n%s", out)
	}
}
