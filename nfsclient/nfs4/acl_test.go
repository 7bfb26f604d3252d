package nfs4

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// nfs4ACL is A::OWNER@:rwatTnNcCy, A:g:wheel@example.org:rx in the form of nfs4-acl-tools.
func nfs4ACL() (b []byte) {
	b = binary.BigEndian.AppendUint32(b, 2)
	for _, e := range []wire.ACE{{Mask: 0x1601bf, Who: "OWNER@"}, {Flag: 0x40, Mask: 0x21, Who: "wheel@example.org"}} {
		for _, v := range []uint32{e.Type, e.Flag, e.Mask, uint32(len(e.Who))} {
			b = binary.BigEndian.AppendUint32(b, v)
		}
		b = append(b, e.Who...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
	}
	return b
}

// TestNFS4ACL: a list is shown and set in the form of its attribute; what is none is refused before it is sent.
func TestNFS4ACL(t *testing.T) {
	f := newFake()
	f.attrs.ACLSupport = 3
	f.attrs.Mask = f.attrs.Mask.Or(wire.BitmapOf(wire.AttrACL, wire.AttrACLSupport))
	f.attrs.SupportedAttrs = f.attrs.Mask
	c, _ := mountFake(t, f, 1)
	if !c.Info().NFS4ACLs {
		t.Error("the server's lists are not noticed")
	}
	var set []wire.ACE
	status := wire.OK
	f.script(func(o wire.Operation) (wire.Status, bool) {
		switch o := o.(type) {
		case *wire.SetAttr:
			set, o.Done = o.Attrs.ACL, o.Attrs.Mask
			return status, true
		case *wire.GetAttr:
			if o.Want.Has(wire.AttrACL) {
				o.Attrs.ACL, o.Attrs.Mask = set, o.Want
				if set == nil {
					o.Attrs.Mask = wire.Bitmap{}
				}
				return status, true
			}
		}
		return wire.OK, false
	})
	ctx, cr, acl := t.Context(), nfsclient.Cred{}, nfs4ACL()
	if _, err := c.GetNFS4ACL(ctx, cr, "h"); !errors.Is(err, nfsclient.ErrNotSupported) {
		t.Errorf("a file system without: %v", err)
	}
	w, err := c.SetNFS4ACL(ctx, cr, "h", acl)
	if err != nil || !w.After.Set || len(set) != 2 {
		t.Errorf("set: %+v, %v, %v", w, set, err)
	}
	if got, err := c.GetNFS4ACL(ctx, cr, "h"); err != nil || !bytes.Equal(got, acl) {
		t.Errorf("%x, %v instead of %x", got, err, acl)
	}
	n := f.count(wire.OpSetAttr)
	for i := range acl {
		if _, err := c.SetNFS4ACL(ctx, cr, "h", acl[:i]); nfsclient.Errno(err) != 22 {
			t.Errorf("%d bytes of a list: %v", i, err)
		}
	}
	if _, err := c.SetNFS4ACL(ctx, cr, "h", append(acl, 0, 0, 0, 0)); nfsclient.Errno(err) != 22 {
		t.Errorf("more than a list: %v", err)
	}
	if f.count(wire.OpSetAttr) != n {
		t.Error("sent what is no list")
	}
	status = wire.ErrAttrNotSupp
	if _, err := c.SetNFS4ACL(ctx, cr, "h", acl); !errors.Is(err, nfsclient.ErrNotSupported) {
		t.Errorf("not supported: %v", err)
	}
	if _, err := c.GetNFS4ACL(ctx, cr, "h"); !errors.Is(err, nfsclient.ErrNotSupported) {
		t.Errorf("not supported: %v", err)
	}
}
