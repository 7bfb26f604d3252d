package nfs4

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/verbs/mem/memtest"
)

// TestPrivate: of an encrypted compound nothing is taken for an operation that stands behind data, as Linux' server does with
// the end of that data; attributes are known nevertheless after a WRITE.
func TestPrivate(t *testing.T) {
	f := newFake()
	c, _ := mountFake(t, f, 2)
	c.cf.Private = true
	o, err := c.OpenFile(t.Context(), nfsclient.Cred{}, "file", nfsclient.OpenWrite)
	if err != nil {
		t.Fatal(err)
	}
	data := false
	f.script(func(o wire.Operation) (wire.Status, bool) {
		if data && o.Op() != wire.OpPutFH {
			t.Errorf("%v stands behind data", o.Op())
			return wire.ErrOpIllegal, true
		}
		switch o := o.(type) {
		case *wire.PutFH:
			data = false
		case *wire.Write:
			o.Count, o.Committed, data = 1, nfsclient.FileSync, true
		case *wire.SetXattr:
			data = true
		}
		return wire.OK, false
	})
	f.attrs.Size = 12345
	r, err := c.Write(t.Context(), nfsclient.Cred{}, "file", o.State, 0, memtest.Vec(t, "x"), nfsclient.FileSync)
	if err != nil || !r.Wcc.After.Set || r.Wcc.After.Size != 12345 {
		t.Errorf("WRITE: %+v, %v", r, err)
	}
	if w, err := c.SetXattr(t.Context(), nfsclient.Cred{}, "file", "name", make([]byte, 5000), nfsclient.XattrEither); err != nil || w.After.Set {
		t.Errorf("SETXATTR: %+v, %v", w, err)
	}
}
