package nfs3

import (
	"context"
	"errors"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/transport"
)

var _ nfsclient.ACLs = (*Client)(nil)

// findACL asks whether the server has NFSACL.
func (c *Client) findACL(ctx context.Context, cr nfsclient.Cred) error {
	var status nfsclient.Status
	err := c.do(ctx, cr, &request{op: "NFSACL NULL", acl: true, proc: wire.ACLNull, args: &wire.Void{}, res: &wire.Void{}, status: &status})
	c.info.ACLs = err == nil
	var refused *transport.RPCError
	if errors.As(err, &refused) {
		return nil // NFS goes on without
	}
	return err
}

// lacksProgram reports whether an error says that the server does not have a program, or
// only another version of it.
func lacksProgram(err error) bool {
	return accepted(err, transport.ProgUnavail) || accepted(err, transport.ProgMismatch) || accepted(err, transport.ProcUnavail)
}

// accepted reports whether err is a reply with such an accept_stat.
func accepted(err error, stat transport.AcceptStat) bool {
	var e *transport.RPCError
	return errors.As(err, &e) && !e.Denied && e.Code == uint32(stat)
}

// GetACL implements nfsclient.ACLs.
func (c *Client) GetACL(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, dir bool) (nfsclient.ACL, error) {
	if !c.info.ACLs {
		return nfsclient.ACL{}, nfsclient.ErrNotSupported
	}
	args := wire.GetACLArgs{Handle: h, Mask: wire.ACLAccess | wire.ACLAccessCount}
	if dir {
		args.Mask = wire.ACLAll
	}
	var res wire.GetACLRes
	q := request{op: "GETACL", acl: true, proc: wire.ACLGet, args: &args, res: &res, status: &res.Status, replyMax: wire.ShortACLReplyMax}
	err := c.do(ctx, cr, &q)
	if errors.Is(err, transport.ErrReplyBound) {
		// A long list. Short ones, by far the most, fit a reply without a chunk.
		q.replyMax, res = wire.GetACLReplyMax, wire.GetACLRes{}
		err = c.do(ctx, cr, &q)
	}
	if err != nil {
		return nfsclient.ACL{Attr: toPost(&res.Attr)}, aclError(err)
	}
	acl := nfsclient.ACL{Attr: toPost(&res.Attr)}
	if acl.Access, err = wire.ToACL(res.ACLs.Access); err == nil && dir {
		acl.Default, err = wire.ToACL(res.ACLs.Default)
	}
	if err != nil {
		return nfsclient.ACL{}, broken("GETACL", "%v", err)
	}
	if nfsclient.Trivial(acl.Access) {
		acl.Access = nil
	}
	return acl, nil
}

// SetACL implements nfsclient.ACLs.
func (c *Client) SetACL(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, dir bool, acl nfsclient.ACL) (*nfsclient.Attr, error) {
	if !c.info.ACLs {
		return nil, nfsclient.ErrNotSupported
	}
	if acl.Attr == nil {
		a, err := c.GetAttr(ctx, cr, h)
		if err != nil {
			return nil, err
		}
		acl.Attr = &a
	}
	access := acl.Access
	if len(access) == 0 {
		access = nfsclient.ModeACL(acl.Attr.Mode)
	}
	args := wire.SetACLArgs{Handle: h, ACLs: wire.ACLs{Mask: wire.ACLAccess, Access: wire.FromACL(access, false, acl.Attr.UID, acl.Attr.GID)}}
	args.ACLs.AccessCount = uint32(len(args.ACLs.Access))
	if dir {
		args.ACLs.Mask |= wire.ACLDefault
		args.ACLs.Default = wire.FromACL(acl.Default, true, acl.Attr.UID, acl.Attr.GID)
		args.ACLs.DefaultCount = uint32(len(args.ACLs.Default))
	}
	if max(len(args.ACLs.Access), len(args.ACLs.Default)) > nfsclient.MaxACL {
		return nil, &nfsclient.Error{Op: "SETACL", Status: nfsclient.ErrNoSpace}
	}
	var res wire.SetACLRes
	err := c.do(ctx, cr, &request{op: "SETACL", acl: true, proc: wire.ACLSet, args: &args, res: &res, status: &res.Status, replyMax: wire.SetACLReplyMax})
	if accepted(err, transport.GarbageArgs) {
		// Linux' server decodes no list that is longer than a page (some 340 entries).
		err = &nfsclient.Error{Op: "SETACL", Status: nfsclient.ErrNoSpace}
	}
	if !answered(err) {
		return nil, aclError(err)
	}
	return toPost(&res.Attr), aclError(err)
}

// aclError is ErrNotSupported where the server, or the file's file system, has no access
// control lists.
func aclError(err error) error {
	if st, _ := nfsclient.StatusOf(err); st == nfsclient.ErrNotSupp || lacksProgram(err) {
		return nfsclient.ErrNotSupported
	}
	return err
}
