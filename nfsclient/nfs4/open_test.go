package nfs4

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// TestOpenTells: with an opening come the file's attributes and the user's rights, by one compound. What the server does not
// tell is missing, and the file is open all the same; what it grants unasked does not count.
func TestOpenTells(t *testing.T) {
	const read = nfsclient.AccessRead
	type answer struct {
		status  wire.Status
		granted uint32
	}
	for _, c := range []struct {
		name           string
		attr, access   answer
		known          bool // the attributes
		asked, granted nfsclient.AccessMask
	}{
		{"both", answer{}, answer{0, uint32(read)}, true, nfsclient.FileRights, read},
		{"more than was asked", answer{}, answer{0, ^uint32(0)}, true, nfsclient.FileRights, nfsclient.FileRights},
		{"no right", answer{}, answer{}, true, nfsclient.FileRights, 0},
		{"ACCESS put off", answer{}, answer{wire.ErrDelay, 0}, true, 0, 0},
		{"ACCESS refused", answer{}, answer{nfsclient.ErrAccess, 0}, true, 0, 0},
		{"GETATTR put off", answer{wire.ErrDelay, 0}, answer{}, false, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			client, slept := mountFake(t, f, 2)
			calls := f.count(wire.OpSequence)
			f.script(func(o wire.Operation) (wire.Status, bool) {
				switch o := o.(type) {
				case *wire.GetAttr:
					return c.attr.status, c.attr.status != wire.OK
				case *wire.Access:
					o.Supported, o.Granted = o.Want, c.access.granted
					return c.access.status, true
				}
				return wire.OK, false
			})
			got, err := client.OpenFile(t.Context(), someone, "handle", nfsclient.OpenRead)
			if err != nil {
				t.Fatal(err)
			}
			if got.State == nil || (got.Attr != nil) != c.known || got.Asked != c.asked || got.Granted != c.granted {
				t.Errorf("%+v", got)
			}
			if n := f.count(wire.OpSequence) - calls; n != 1 {
				t.Errorf("%d compounds", n)
			}
			if n := slept(); n > 0 {
				t.Errorf("waited for %v", n)
			}
			f.script(nil)
			if err := client.CloseFile(t.Context(), someone, "handle", got.State); err != nil {
				t.Error(err)
			}
		})
	}
}
