package fs

import (
	"context"
	"slices"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// withNFS4ACLs is a server that takes any list of NFSv4.
type withNFS4ACLs struct{ everyName }

func (*withNFS4ACLs) Info() nfsclient.Info {
	return nfsclient.Info{ReadMax: 1 << 20, WriteMax: 1 << 20, NFS4ACLs: true}
}

func (*withNFS4ACLs) GetNFS4ACL(context.Context, nfsclient.Cred, nfsclient.Handle) ([]byte, error) {
	return make([]byte, 4), nil
}

func (*withNFS4ACLs) SetNFS4ACL(context.Context, nfsclient.Cred, nfsclient.Handle, []byte) (w nfsclient.Wcc, err error) {
	return w, nil
}

// notices is what the kernel is told.
type notices struct {
	server
	attributes []uint64
}

func (n *notices) InodeNotify(node uint64, off, _ int64) fuse.Status {
	if off < 0 {
		n.attributes = append(n.attributes, node)
	}
	return fuse.OK
}

// The kernel drops the mode that it knows once a list of NFSv4 was set.
func TestNFS4ACLTold(t *testing.T) {
	pool, err := bufpool.New(bufpool.Config{Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	k := NewKernel()
	c, err := cache.New(&withNFS4ACLs{}, pool, cache.Config{RSize: 1 << 16, WSize: 1 << 16, Kernel: k})
	if err != nil {
		t.Fatal(err)
	}
	f, stop := newFS(c, k, Config{})
	told := &notices{}
	f.server = told
	t.Cleanup(func() {
		stop()
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	in := &fuse.SetXAttrIn{InHeader: fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}}
	if st := f.SetXAttr(nil, in, nfs4ACL, make([]byte, 4)); !st.Ok() {
		t.Fatal(st)
	}
	if !slices.Equal(told.attributes, []uint64{fuse.FUSE_ROOT_ID}) {
		t.Errorf("the kernel was told of %v", told.attributes)
	}
}
