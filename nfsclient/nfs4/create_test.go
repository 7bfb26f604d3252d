package nfs4

import (
	"context"
	"errors"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// A caller that gives up a CREATE under way looks at nothing that the call still writes (go test -race).
func TestCreateGivenUp(t *testing.T) {
	f := newFake()
	c, _ := mountFake(t, f, 2)
	ctx, cancel := context.WithCancel(t.Context())
	f.script(func(o wire.Operation) (wire.Status, bool) {
		if o.Op() == wire.OpOpen {
			cancel()
		}
		return wire.OK, false
	})
	mode := uint32(0o600)
	_, err := c.Create(ctx, nfsclient.Cred{}, "dir", "name", nfsclient.SetAttr{Mode: &mode}, true, nfsclient.OpenWrite)
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
