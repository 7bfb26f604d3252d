package nfs3

import (
	"errors"
	"reflect"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
)

func exportStep(reply wire.Message, err error) step {
	return step{prog: wire.MountProgram, vers: wire.MountVersion, proc: wire.MountExport, reply: reply, err: err}
}

func TestExports(t *testing.T) {
	list := &wire.ExportRes{Exports: []wire.ExportEntry{{Path: "/a"}, {Path: "/b\x1b[2J", Groups: []string{"10.0.0.0/8", "@h\nosts"}}}}
	cf := config(t, nil, map[uint16][]*fakeServer{
		wire.RpcbindPort: {newFake(t, rpcbindStep(2, &wire.GetPortRes{Port: mountPort}, nil))},
		mountPort:        {newFake(t, exportStep(list, nil))},
	})
	cf.MountPort = 0
	got, err := Exports(t.Context(), cf)
	want := []Export{{Path: "/a"}, {Path: "/b?[2J", Groups: []string{"10.0.0.0/8", "@h?osts"}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestExportsFailures(t *testing.T) {
	for name, c := range map[string]struct {
		servers map[uint16][]*fakeServer
		port    uint16
		want    Failure
	}{
		"no rpcbind": {map[uint16][]*fakeServer{wire.RpcbindPort: {newFake(t, rpcbindStep(2, nil, refusedErr))}}, 0, RpcbindUnreachable},
		"no answer":  {map[uint16][]*fakeServer{mountPort: {newFake(t, exportStep(nil, refusedErr))}}, mountPort, MountdUnreachable},
		"no list":    {map[uint16][]*fakeServer{mountPort: {newFake(t, exportStep(nil, rpcErr(3)))}}, mountPort, MountdMissing},
	} {
		t.Run(name, func(t *testing.T) {
			cf := config(t, nil, c.servers)
			cf.MountPort = c.port
			_, err := Exports(t.Context(), cf)
			var me *MountError
			if !errors.As(err, &me) || me.Failure != c.want {
				t.Errorf("%v, want failure %d", err, c.want)
			}
		})
	}
}
