package nfs3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/mark"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/nfsclient/pathbuf"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Client is a mounted export. It implements nfsclient.Client.
type Client struct {
	cf       Config
	caller   transport.Caller
	root     nfsclient.Handle
	rootAttr nfsclient.Attr
	info     nfsclient.Info
	paths    *pathbuf.Pool
	// sleep waits between tries of what the server asks to try later.
	sleep func(ctx context.Context, d time.Duration) error

	// noPlus and noExclusive are set once the server has answered that it does not
	// support READDIRPLUS, or exclusive CREATE.
	noPlus, noExclusive atomic.Bool
	// verifier is the server's last, 0 if there was none; kept only with Config.Locks.
	verifier atomic.Uint64
	marks    mark.Marks

	closeOnce sync.Once
	closeErr  error
}

var _ nfsclient.Client = (*Client)(nil)

// newClient asks what the server can do with the export at root.
func newClient(ctx context.Context, cf Config, root nfsclient.Handle) (*Client, error) {
	c := &Client{cf: cf, caller: cf.Caller, root: root, sleep: nfsclient.Pause}
	c.noPlus.Store(cf.NoReadDirPlus)
	fail := func(err error) error {
		return cf.fail(NFSFailed, "the NFS server does not serve the export", cmp.Or(OtherVersion(err), strongerSecurity(err)), err)
	}
	info, attr, err := c.fsInfo(ctx, cf.Cred)
	if err != nil {
		return nil, fail(err)
	}
	c.info = info
	if attr == nil {
		a, err := c.GetAttr(ctx, cf.Cred, root)
		if err != nil {
			return nil, fail(err)
		}
		attr = &a
	}
	if attr.Type != nfsclient.Directory {
		return nil, cf.fail(NoExport, "the export is not a directory", "", nil)
	}
	c.rootAttr = *attr
	if err := c.pathConf(ctx, cf.Cred); err != nil {
		return nil, fail(err)
	}
	if cf.ACL {
		if err := c.findACL(ctx, cf.Cred); err != nil {
			return nil, fail(err)
		}
	}
	if c.paths, err = pathbuf.New(cf.Caller); err != nil {
		return nil, fail(err)
	}
	return c, nil
}

// Root implements nfsclient.Client.
func (c *Client) Root() (nfsclient.Handle, nfsclient.Attr) { return c.root, c.rootAttr }

// Info implements nfsclient.Client.
func (c *Client) Info() nfsclient.Info { return c.info }

// Watch implements nfsclient.Client. An NFSv3 server says nothing unasked, but locks
// may be lost.
func (c *Client) Watch(w nfsclient.Watcher) {
	if c.cf.Locks != nil {
		c.cf.Locks.Watch(w)
	}
}

// Register implements nfsclient.Client.
func (c *Client) Register(a *mem.Arena) error { return c.caller.Register(a) }

// Unregister implements nfsclient.Client.
func (c *Client) Unregister(a *mem.Arena) error { return c.caller.Unregister(a) }

// Close implements nfsclient.Client. Calls under way fail.
func (c *Client) Close(ctx context.Context) error {
	c.closeOnce.Do(func() {
		var locks error
		if c.cf.Locks != nil {
			locks = c.cf.Locks.Close(ctx)
		}
		c.cf.umount(ctx)
		c.closeErr = errors.Join(locks, c.caller.Close(), c.paths.Close())
	})
	return c.closeErr
}

// Delays before another try of what the server asks to try later.
const (
	firstDelay = 100 * time.Millisecond
	lastDelay  = 5 * time.Second
)

// request is one NFS procedure call.
type request struct {
	op       string
	proc     uint32
	args     wire.Message
	res      wire.Message
	status   *nfsclient.Status // in res
	replyMax int
	// acl: the procedure is one of NFSACL.
	acl bool
	// impatient: JUKEBOX is returned to the caller, not retried.
	impatient bool
	send      []transport.Payload
	recv      []transport.Payload

	// call is made from the above; its functions may be there already. sys is
	// its credential.
	call transport.Call
	sys  transport.AuthSys
}

// do calls until the server's answer is not JUKEBOX, unless q is impatient. Answers other than OK are
// *nfsclient.Error; what they carry is in q.res all the same, and q.res holds
// nothing after any other error.
func (c *Client) do(ctx context.Context, cr nfsclient.Cred, q *request) error {
	if q.call.Args == nil {
		q.call.Args, q.call.Result = q.args.Append, parser(q.res)
	}
	q.call.Prog, q.call.Vers, q.call.Proc, q.call.Cred = wire.NFSProgram, wire.NFSVersion, q.proc, &q.sys
	if q.acl {
		q.call.Prog, q.call.Vers = wire.ACLProgram, wire.ACLVersion
	}
	q.sys = c.cf.sys(cr)
	q.call.Status = (*uint32)(q.status)
	q.call.Send, q.call.Recv, q.call.ReplyMax = q.send, q.recv, q.replyMax
	for delay := firstDelay; ; delay = min(2*delay, lastDelay) {
		if err := c.caller.Call(ctx, &q.call); err != nil {
			return fmt.Errorf("%s: %w", q.op, err)
		}
		switch st := *q.status; {
		case st == nfsclient.OK:
			return nil
		case st == nfsclient.ErrJukebox && !q.impatient:
			if delay == firstDelay {
				c.cf.Log.Info(fmt.Sprintf("%s: server asks to try %s later", c.cf.Host, q.op))
			}
			if err := c.sleep(ctx, delay); err != nil {
				return fmt.Errorf("%s: server asked to try later: %w", q.op, err)
			}
		default:
			return &nfsclient.Error{Op: q.op, Status: st}
		}
	}
}

// parser decodes into m and allows nothing after it.
func parser(m wire.Message) func(*xdr.Reader) error {
	return func(r *xdr.Reader) error {
		m.Parse(r)
		return r.End()
	}
}

// answered reports whether q.res was decoded, if only the arm of a failure.
func answered(err error) bool {
	_, ok := nfsclient.StatusOf(err)
	return ok
}

// broken is the error for a reply that violates the protocol.
func broken(op, format string, args ...any) error {
	return fmt.Errorf("%s: %w: server's answer has %s", op, &transport.Error{Fate: transport.Answered, Err: transport.ErrProtocol},
		fmt.Sprintf(format, args...))
}

// checkName refuses names that no file of this server can have.
func (c *Client) checkName(op, name string) error {
	return nfsclient.CheckName(op, name, c.info.NameMax)
}
