package cache

import (
	"context"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// aclServer has access control lists of NFSv4. Whatever is set denies bob to search the root; the mode stays.
type aclServer struct{ *fake }

func (s aclServer) Info() nfsclient.Info {
	i := s.fake.Info()
	i.NFS4ACLs = true
	return i
}

func (s aclServer) GetNFS4ACL(context.Context, nfsclient.Cred, nfsclient.Handle) ([]byte, error) {
	return make([]byte, 4), nil
}

func (s aclServer) SetNFS4ACL(_ context.Context, _ nfsclient.Cred, h nfsclient.Handle, _ []byte) (w nfsclient.Wcc, err error) {
	denyLookup(s.fake, bob)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[h]
	w.Before = n.pre()
	n.attr.Ctime = s.now()
	w.After = n.after()
	return w, nil
}

// What was known of rights is not believed once a list of NFSv4 was set, though the mode stays.
func TestRightsAfterNFS4ACL(t *testing.T) {
	srv := aclServer{newFake(t)}
	srv.foreign("a", nil)
	c := newCache(t, srv, testConfig())
	if got := must[nfsclient.AccessMask](t)(c.Access(ctx, bob, c.Root(), nfsclient.AccessLookup)); got != nfsclient.AccessLookup {
		t.Fatalf("rights at first: %#x", got)
	}
	check(t, c.SetNFS4ACL(ctx, alice, c.Root(), make([]byte, 4)))
	if got := must[nfsclient.AccessMask](t)(c.Access(ctx, bob, c.Root(), nfsclient.AccessLookup)); got != 0 {
		t.Errorf("rights after the list was set: %#x", got)
	}
}
