package nfs4

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/testlog"
)

// leads has the fake answer st for what is in the directory "away"; of it it tells the places and flavors.
func leads(st wire.Status, to *wire.FSLocations, flavors []wire.Flavor) func(o wire.Operation) (wire.Status, bool) {
	away := false
	return func(o wire.Operation) (wire.Status, bool) {
		switch o := o.(type) {
		case *wire.PutRootFH, *wire.PutFH:
			away = false
		case *wire.Lookup:
			away = o.Name == "away"
			if away && st == wire.ErrWrongSec {
				return st, true
			}
		case *wire.SecInfo:
			if o.Name != "away" || flavors == nil {
				return nfsclient.ErrNoEnt, true
			}
			o.Flavors = flavors
		case *wire.GetAttr:
			switch {
			case away && o.Want == wire.BitmapOf(wire.AttrFSLocations) && to != nil:
				o.Attrs.Mask, o.Attrs.FSLocations = o.Want, to
				return wire.OK, true
			case away:
				return st, true
			}
		}
		return wire.OK, false
	}
}

// TestElsewhere: a file system that has moved, or demands other security, is an error that says where it is, or
// what it demands, when it is mounted and, once, in the log when it is come upon.
func TestElsewhere(t *testing.T) {
	krb5 := func(service uint32) wire.Flavor {
		return wire.Flavor{Flavor: wire.RPCSecGSS, OID: "\x06\x09" + oidKrb5, Service: service}
	}
	for _, x := range []struct {
		name      string
		st        wire.Status
		to        *wire.FSLocations
		flavors   []wire.Flavor
		failure   nfs3.Failure
		why, hint string
	}{
		{"moved", wire.ErrMoved, &wire.FSLocations{Root: []string{"away"}, Locations: []wire.FSLocation{{Servers: []string{"one", "192.0.2.1"}, Root: []string{"a", "b"}}, {Servers: []string{"t\x1bwo"}}}},
			nil, nfs3.NoExport, "/away has moved to one:/a/b or 192.0.2.1:/a/b or t?wo:/", "mount it from there"},
		{"moved away", wire.ErrMoved, nil, nil, nfs3.NoExport, "/away has moved to another server", "ask its administrator"},
		{"krb5", wire.ErrWrongSec, nil, []wire.Flavor{krb5(3), krb5(1), krb5(1), {Flavor: 9}}, nfs3.NoFlavor, "/away demands sec=krb5p, krb5, 9", "mount it with sec=krb5p"},
		{"sys", wire.ErrWrongSec, nil, []wire.Flavor{{Flavor: wire.AuthSys}}, nfs3.NoFlavor, "/away takes sec=sys", "xprtsec=tls"},
		{"silent", wire.ErrWrongSec, nil, nil, nfs3.NoFlavor, "/away demands other security than the mount's", "export it with sec=sys"},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := newFake()
			f.script(leads(x.st, x.to, x.flavors))
			_, err := Mount(t.Context(), Config{Host: "fake", Export: "/away/below", Minor: 1, Caller: f, Owner: []byte("owner"), Log: testlog.New(t)})
			var refused *MountError
			if !errors.As(err, &refused) || refused.Failure != x.failure || refused.Why != x.why || !strings.Contains(refused.Hint, x.hint) {
				t.Errorf("%v (%+v)", err, refused)
			}
			f.script(nil)
			c, _ := mountFake(t, f, 1)
			var lines []string
			c.cf.Log = testlog.To(func(line string) { lines = append(lines, line) })
			f.script(leads(x.st, x.to, x.flavors))
			for range 3 {
				found, err := c.Lookup(t.Context(), nfsclient.Cred{}, "dir", "away")
				if err == nil && found.Attr != nil {
					t.Errorf("found: %+v", found)
				}
			}
			if len(lines) != 1 || !strings.Contains(lines[0], strings.TrimPrefix(x.why, "/")) {
				t.Errorf("the log has %q", lines)
			}
			if n := slices.IndexFunc(lines, func(l string) bool { return strings.ContainsRune(l, 0x1b) }); n >= 0 {
				t.Errorf("the log has what a server may not have there: %q", lines[n])
			}
		})
	}
}
