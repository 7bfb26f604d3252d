package nfs4

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// TestUmask: the umask goes with the mode where the server takes both, and where only a file is made; else
// the mode is what is left of it.
func TestUmask(t *testing.T) {
	for _, x := range []struct {
		name             string
		minor            uint32
		acls             bool // the server has access control lists
		has, exclusively bool // it takes mode_umask, also of an exclusive create
		want, exclusive  bool // it is sent
	}{
		{"4.2", 2, true, true, true, true, true}, {"not exclusively", 2, true, true, false, true, false}, {"without", 2, true, false, false, false, false},
		{"without lists", 2, false, true, true, false, false}, {"4.1", 1, true, true, true, false, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := newFake()
			f.attrs.Mask.Add(wire.AttrACLSupport)
			f.attrs.Mask.Add(wire.AttrSuppAttrExclCreate)
			f.attrs.SupportedAttrs, f.attrs.SuppAttrExclCreate = f.attrs.Mask, wire.BitmapOf(wire.AttrMode)
			if x.acls {
				f.attrs.ACLSupport = 1
			}
			if x.has {
				f.attrs.SupportedAttrs.Add(wire.AttrModeUmask)
			}
			if x.exclusively {
				f.attrs.SuppAttrExclCreate.Add(wire.AttrModeUmask)
			}
			c, _ := mountFake(t, f, x.minor)
			if c.Info().Umask != x.want {
				t.Errorf("Info.Umask is %v", c.Info().Umask)
			}
			check := func(what string, a *wire.Attrs, umasked bool) {
				t.Helper()
				if a.Has(wire.AttrModeUmask) != umasked || a.Has(wire.AttrMode) == umasked ||
					umasked && a.ModeUmask != (wire.ModeUmask{Mode: 0o666, Umask: 0o027}) || !umasked && a.Mode != 0o640 {
					t.Errorf("%s: %+v, %o", what, a.ModeUmask, a.Mode)
				}
			}
			made := 0
			f.script(func(o wire.Operation) (wire.Status, bool) {
				switch o := o.(type) {
				case *wire.Open:
					if made++; o.Mode == wire.Exclusive1 {
						check("exclusive", &o.Attrs, x.exclusive)
					} else {
						check("create", &o.Attrs, x.want)
					}
				case *wire.Create:
					made++
					check("make", &o.Attrs, x.want)
				case *wire.SetAttr:
					if o.Attrs.Has(wire.AttrModeUmask) || o.Attrs.Has(wire.AttrMode) {
						t.Errorf("SETATTR of a mode: %v", o.Attrs.Mask)
					}
				}
				return wire.OK, false
			})
			s := nfsclient.SetAttr{Mode: new(uint32(0o666)), Umask: 0o027}
			for _, exclusive := range []bool{false, true} {
				if _, err := c.Create(t.Context(), nfsclient.Cred{}, "dir", "f", s, exclusive, 0); err != nil {
					t.Error(err)
				}
			}
			if _, err := c.Mkdir(t.Context(), nfsclient.Cred{}, "dir", "d", s); err != nil {
				t.Error(err)
			}
			if _, err := c.Mknod(t.Context(), nfsclient.Cred{}, "dir", "p", nfsclient.FIFO, nfsclient.Device{}, s); err != nil {
				t.Error(err)
			}
			if made != 4 {
				t.Errorf("%d made", made)
			}
		})
	}
}
