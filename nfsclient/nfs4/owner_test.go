package nfs4

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// accounts has root and ann, and counts what it is asked.
func accounts(o *owners) (asked *int) {
	asked = new(int)
	find := func(pairs ...string) func(string) (string, error) {
		return func(s string) (string, error) {
			*asked++
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == s {
					return pairs[i+1], nil
				}
			}
			return "", errors.New("unknown")
		}
	}
	o.userID, o.groupID = find("root", "0", "ann", "1000"), find("root", "0", "staff", "50")
	o.userName, o.groupName = find("0", "root", "1000", "ann"), find("0", "root", "50", "staff")
	return asked
}

// TestOwners: numbers stand for themselves, names for accounts of this host, and the others are nobody.
func TestOwners(t *testing.T) {
	o := newOwners(IDMap{})
	asked := accounts(&o)
	now := time.Unix(1e9, 0)
	o.now = func() time.Time { return now }
	for s, want := range map[string]uint32{
		"0": 0, "1000": 1000, "4294967295": 1<<32 - 1, "4294967296": nobody, "-1": nobody, "+5": nobody, "007": nobody, "": nobody,
		"root": 0, "root@example.org": 0, "ann@EXAMPLE.org": 1000, "nosuchuser@example.org": nobody, "@": nobody,
	} {
		for range 2 {
			if got := o.uid(s); got != want {
				t.Errorf("user %q is %d, want %d", s, got, want)
			}
		}
	}
	if got := o.gid("staff@example.org"); got != 50 {
		t.Errorf("group staff is %d", got)
	}
	before := *asked
	if o.uid("root@example.org"); *asked != before {
		t.Error("a name is not remembered")
	}
	now = now.Add(ownerLife)
	if o.uid("root@example.org"); *asked != before+1 {
		t.Error("a name is remembered for ever")
	}
	for i := range 2 * maxOwners {
		o.uid(fmt.Sprintf("user%d@example.org", i))
	}
	if len(o.userIDs) > maxOwners {
		t.Errorf("%d names remembered", len(o.userIDs))
	}
}

// TestOwnersDomain: with a domain of one's own the names of others are not those of this host's accounts, and who
// is not known is who the configuration says.
func TestOwnersDomain(t *testing.T) {
	o := newOwners(IDMap{Domain: "example.org", NobodyUser: new(uint32(99)), NobodyGroup: new(uint32(98))})
	accounts(&o)
	for s, want := range map[string]uint32{"ann": 1000, "ann@example.org": 1000, "ann@Example.Org": 1000, "ann@elsewhere.org": 99, "nosuchuser@example.org": 99, "7": 7} {
		if got := o.uid(s); got != want {
			t.Errorf("user %q is %d, want %d", s, got, want)
		}
	}
	if got := o.gid("staff@elsewhere.org"); got != 98 {
		t.Errorf("the group of another domain is %d", got)
	}
	if got := o.ofUser(1000, true); got != "ann@example.org" {
		t.Errorf("ann is sent as %q", got)
	}
	if got := o.ofUser(4000, true); got != "4000" {
		t.Errorf("a user without a name is sent as %q", got)
	}
}

// TestBadOwner: a server that does not take numbers is sent names, and the other way round; an account that
// it does not know in either way changes nothing.
func TestBadOwner(t *testing.T) {
	f := newFake()
	f.attrs.Owner, f.attrs.OwnerGroup = "root@example.org", "root@example.org"
	c, _ := mountFake(t, f, 1)
	accounts(&c.owners)
	var takes string // what the server takes
	var sent []string
	f.script(func(o wire.Operation) (wire.Status, bool) {
		owner := ""
		switch o := o.(type) {
		case *wire.SetAttr:
			owner = o.Attrs.Owner
		case *wire.Create:
			owner = o.Attrs.Owner
		case *wire.Open:
			owner = o.Attrs.Owner
		}
		if owner == "" {
			return wire.OK, false
		}
		sent = append(sent, owner)
		if strings.Contains(owner, "@") != (takes == "names") || strings.HasPrefix(owner, "4000") {
			return wire.ErrBadOwner, true
		}
		return wire.OK, false
	})
	ctx, cr := t.Context(), nfsclient.Cred{}
	calls := map[string]func(uid uint32) error{
		"SETATTR": func(uid uint32) error {
			_, err := c.SetAttr(ctx, cr, "h", nil, nfsclient.SetAttr{UID: &uid})
			return err
		},
		"MKDIR": func(uid uint32) error {
			_, err := c.Mkdir(ctx, cr, "h", "d", nfsclient.SetAttr{UID: &uid})
			return err
		},
		"CREATE": func(uid uint32) error {
			_, err := c.Create(ctx, cr, "h", "f", nfsclient.SetAttr{UID: &uid}, false, 0)
			return err
		},
	}
	for what, call := range calls {
		for _, x := range []struct {
			takes string
			uid   uint32
			fails bool
			want  []string
		}{
			{"numbers", 1000, false, []string{"1000"}},
			{"names", 1000, false, []string{"1000", "ann@example.org"}},
			{"names", 1000, false, []string{"ann@example.org"}},
			{"names", 4000, true, []string{"4000", "4000"}},
			{"names", 0, false, []string{"root@example.org"}},
			{"numbers", 0, false, []string{"root@example.org", "0"}},
			{"numbers", 1000, false, []string{"1000"}},
		} {
			takes, sent = x.takes, nil
			err := call(x.uid)
			if fmt.Sprint(sent) != fmt.Sprint(x.want) || (err != nil) != x.fails {
				t.Errorf("%s of %d where %s are taken: sent %q, %v", what, x.uid, x.takes, sent, err)
			}
			if x.fails && nfsclient.Errno(err) != 22 {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

// TestBadOwnerWithoutDomain: names are not sent as long as no domain is known.
func TestBadOwnerWithoutDomain(t *testing.T) {
	f := newFake()
	c, _ := mountFake(t, f, 1)
	n := 0
	f.script(func(o wire.Operation) (wire.Status, bool) {
		if _, ok := o.(*wire.SetAttr); ok {
			n++
			return wire.ErrBadOwner, true
		}
		return wire.OK, false
	})
	if _, err := c.SetAttr(t.Context(), nfsclient.Cred{}, "h", nil, nfsclient.SetAttr{UID: new(uint32(0))}); nfsclient.Errno(err) != 22 || n != 1 {
		t.Errorf("%v after %d tries", err, n)
	}
}
