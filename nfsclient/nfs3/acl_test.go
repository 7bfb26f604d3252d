package nfs3

import (
	"errors"
	"reflect"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// aclStep is a step of NFSACL.
func aclStep(proc uint32, reply wire.Message) step {
	return step{prog: wire.ACLProgram, vers: wire.ACLVersion, proc: proc, reply: reply}
}

// mountedWithACLs is a client that has asked for NFSACL, and got an answer or an error.
func mountedWithACLs(t *testing.T, err error) (*Client, *fakeServer) {
	t.Helper()
	null := aclStep(wire.ACLNull, &wire.Void{})
	null.err = err
	nfs := newFake(t, nfsStep(wire.ProcFSInfo, &fsInfo), nfsStep(wire.ProcPathConf, &pathConf), null)
	cf := config(t, nfs, map[uint16][]*fakeServer{mountPort: {mntOK(t), umnt(t)}})
	cf.ACL = true
	c, err := Mount(t.Context(), cf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return c, nfs
}

var (
	namedACL = []nfsclient.ACE{{Tag: nfsclient.ACLUserObj, Perm: 6}, {Tag: nfsclient.ACLUser, Perm: 4, ID: 1000}, {Tag: nfsclient.ACLUser, Perm: 5, ID: 1001},
		{Tag: nfsclient.ACLGroupObj, Perm: 4}, {Tag: nfsclient.ACLMask, Perm: 5}, {Tag: nfsclient.ACLOther}}
	// As the server may send it: in another order, with ids everywhere.
	namedEntries = []wire.ACLEntry{{Tag: 0x20, ID: 0}, {Tag: 1, ID: 7, Perm: 6}, {Tag: 2, ID: 1001, Perm: 5}, {Tag: 2, ID: 1000, Perm: 4},
		{Tag: 0x10, Perm: 5}, {Tag: 4, ID: 8, Perm: 4}}
	trivialEntries = []wire.ACLEntry{{Tag: 1, ID: 7, Perm: 6}, {Tag: 4, ID: 8, Perm: 4}, {Tag: 0x10, Perm: 4}, {Tag: 0x20, Perm: 4}}
)

// TestNoACLs: a server without NFSACL is asked once.
func TestNoACLs(t *testing.T) {
	for _, code := range []transport.AcceptStat{transport.ProgUnavail, transport.ProgMismatch} {
		c, _ := mountedWithACLs(t, &transport.Error{Fate: transport.Answered, Err: &transport.RPCError{Code: uint32(code)}})
		if c.Info().ACLs {
			t.Error("the server has ACLs")
		}
		if _, err := c.GetACL(t.Context(), nfsclient.Cred{}, "h", true); !errors.Is(err, nfsclient.ErrNotSupported) {
			t.Error(err)
		}
		if _, err := c.SetACL(t.Context(), nfsclient.Cred{}, "h", true, nfsclient.ACL{}); !errors.Is(err, nfsclient.ErrNotSupported) {
			t.Error(err)
		}
	}
}

// TestGetACL: lists as POSIX has them, whatever the server's order; a list that does not
// fit the short reply is asked for again.
func TestGetACL(t *testing.T) {
	c, nfs := mountedWithACLs(t, nil)
	if !c.Info().ACLs {
		t.Fatal("no ACLs")
	}
	args := wire.GetACLArgs{}
	mask := func(want uint32) func(*testing.T) {
		return func(t *testing.T) {
			if args.Mask != want || args.Handle != "h" {
				t.Errorf("arguments %+v", args)
			}
		}
	}
	ok := func(a wire.ACLs) *wire.GetACLRes { return &wire.GetACLRes{Attr: filePost, ACLs: a} }
	get := func(dir bool) nfsclient.ACL {
		t.Helper()
		acl, err := c.GetACL(t.Context(), nfsclient.Cred{}, "h", dir)
		if err != nil || acl.Attr == nil {
			t.Errorf("%+v, %v", acl, err)
		}
		return acl
	}
	nfs.expect(aclStep(wire.ACLGet, ok(wire.ACLs{Access: trivialEntries})).with(&args, mask(3)))
	if acl := get(false); acl.Access != nil || acl.Default != nil {
		t.Errorf("a list that says what the mode says: %+v", acl)
	}
	defaults := make([]wire.ACLEntry, len(namedEntries))
	for i, e := range namedEntries {
		e.Tag |= wire.ACLDefaultEntry
		defaults[i] = e
	}
	long := aclStep(wire.ACLGet, nil)
	long.err = &transport.Error{Fate: transport.Answered, Err: transport.ErrReplyBound}
	nfs.expect(long, aclStep(wire.ACLGet, ok(wire.ACLs{Access: namedEntries, Default: defaults})).with(&args, mask(15)))
	if acl := get(true); !reflect.DeepEqual(acl.Access, namedACL) || !reflect.DeepEqual(acl.Default, namedACL) {
		t.Errorf("%+v", acl)
	}
	for _, bad := range [][]wire.ACLEntry{
		{{Tag: 1}}, {{Tag: 1}, {Tag: 1}, {Tag: 4}, {Tag: 0x20}}, {{Tag: 1}, {Tag: 4}, {Tag: 0x40}}, {{Tag: 1, Perm: 8}, {Tag: 4}, {Tag: 0x20}},
		{{Tag: 1}, {Tag: 2, ID: 5}, {Tag: 4}, {Tag: 0x20}},
	} {
		nfs.expect(aclStep(wire.ACLGet, ok(wire.ACLs{Access: bad})))
		_, err := c.GetACL(t.Context(), nfsclient.Cred{}, "h", false)
		wantProtocol(t, err, "not an access control list")
	}
	nfs.expect(aclStep(wire.ACLGet, &wire.GetACLRes{Status: nfsclient.ErrNotSupp, Attr: filePost}))
	if acl, err := c.GetACL(t.Context(), nfsclient.Cred{}, "h", false); !errors.Is(err, nfsclient.ErrNotSupported) || acl.Attr == nil {
		t.Errorf("%+v, %v", acl, err)
	}
}

// TestSetACL: lists go out sorted, with a mask and with owner and group; without an access
// list, as that of the mode.
func TestSetACL(t *testing.T) {
	c, nfs := mountedWithACLs(t, nil)
	args := wire.SetACLArgs{}
	set := aclStep(wire.ACLSet, &wire.SetACLRes{Attr: filePost})
	nfs.expect(set.with(&args, nil))
	attr := nfsclient.Attr{UID: 7, GID: 8, Mode: 0o754}
	if a, err := c.SetACL(t.Context(), nfsclient.Cred{}, "h", true, nfsclient.ACL{Default: namedACL, Attr: &attr}); err != nil || a == nil {
		t.Errorf("%+v, %v", a, err)
	}
	want := wire.ACLs{Mask: wire.ACLAccess | wire.ACLDefault, AccessCount: 4, DefaultCount: 6,
		Access: []wire.ACLEntry{{Tag: 1, ID: 7, Perm: 7}, {Tag: 4, ID: 8, Perm: 5}, {Tag: 0x10, Perm: 5}, {Tag: 0x20, Perm: 4}},
		Default: []wire.ACLEntry{{Tag: 0x1001, ID: 7, Perm: 6}, {Tag: 0x1002, ID: 1000, Perm: 4}, {Tag: 0x1002, ID: 1001, Perm: 5},
			{Tag: 0x1004, ID: 8, Perm: 4}, {Tag: 0x1010, Perm: 5}, {Tag: 0x1020}}}
	if !reflect.DeepEqual(args.ACLs, want) {
		t.Errorf("sent\n%+v, want\n%+v", args.ACLs, want)
	}
	args = wire.SetACLArgs{}
	nfs.expect(nfsStep(wire.ProcGetAttr, &wire.GetAttrRes{Attr: fileAttr}), set.with(&args, nil))
	if _, err := c.SetACL(t.Context(), nfsclient.Cred{}, "h", false, nfsclient.ACL{}); err != nil {
		t.Error(err)
	}
	if args.ACLs.Mask != wire.ACLAccess || len(args.ACLs.Access) != 4 || args.ACLs.Access[0].Perm != 6 || args.ACLs.Default != nil {
		t.Errorf("sent %+v", args.ACLs)
	}
	nfs.expect(aclStep(wire.ACLSet, &wire.SetACLRes{Status: nfsclient.ErrPerm, Attr: filePost}))
	a, err := c.SetACL(t.Context(), nfsclient.Cred{}, "h", false, nfsclient.ACL{Access: namedACL, Attr: &attr})
	wantStatus(t, err, nfsclient.ErrPerm)
	if a == nil {
		t.Error("no attributes")
	}
	garbage := aclStep(wire.ACLSet, nil)
	garbage.err = &transport.Error{Fate: transport.Answered, Err: &transport.RPCError{Code: uint32(transport.GarbageArgs)}}
	nfs.expect(garbage)
	_, err = c.SetACL(t.Context(), nfsclient.Cred{}, "h", false, nfsclient.ACL{Access: namedACL, Attr: &attr})
	wantStatus(t, err, nfsclient.ErrNoSpace)
}
