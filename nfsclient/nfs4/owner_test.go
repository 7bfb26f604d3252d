package nfs4

import (
	"fmt"
	"testing"
)

func TestOwners(t *testing.T) {
	var o owners
	for s, want := range map[string]uint32{
		"0": 0, "1000": 1000, "4294967295": 1<<32 - 1, "4294967296": nobody, "-1": nobody, "+5": nobody, "007": nobody, "": nobody,
		"root": 0, "root@example.org": 0, "nosuchuser@example.org": nobody, "@": nobody,
	} {
		for range 2 { // the second time it is remembered
			if got := o.uid(s); got != want {
				t.Errorf("user %q is %d, want %d", s, got, want)
			}
		}
	}
	if got := o.gid("root@example.org"); got != 0 {
		t.Errorf("group root is %d", got)
	}
	for i := range 2 * maxOwners {
		o.uid(fmt.Sprintf("user%d@example.org", i))
	}
	if len(o.users) > maxOwners {
		t.Errorf("%d names remembered", len(o.users))
	}
}

// A server that does not take numbers gets names, once it has shown its domain.
func TestOwnersAsNames(t *testing.T) {
	var o owners
	if got := o.ofUser(0); got != "0" {
		t.Errorf("user 0 is sent as %q", got)
	}
	if o.refused() {
		t.Error("names without a domain")
	}
	o.uid("somebody@example.org")
	if !o.refused() || o.refused() {
		t.Error("names are tried once")
	}
	if u, g := o.ofUser(0), o.ofGroup(0); u != "root@example.org" || g != "root@example.org" {
		t.Errorf("root is sent as %q, %q", u, g)
	}
	if got := o.ofUser(3999999999); got != "3999999999" {
		t.Errorf("a user without a name is sent as %q", got)
	}
}
