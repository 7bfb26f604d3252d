package nfs4

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/session"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/nfsclient/pathbuf"
)

// Mount makes a session and walks to the export from the root of the server's pseudo file system.
// ctx bounds it. Errors are *MountError.
func Mount(ctx context.Context, cf Config) (*Client, error) {
	if cf.Log == nil {
		cf.Log = slog.New(slog.DiscardHandler)
	}
	if cf.Minor != 1 && cf.Minor != 2 {
		return nil, cf.fail(nfs3.BadConfig, fmt.Sprintf("NFS version 4.%d is not supported", cf.Minor), "use vers=4.1 or vers=4.2", nil)
	}
	if cf.Export == "" || len(cf.Export) > pathbuf.Size {
		return nil, cf.fail(nfs3.BadConfig, "the export's path is empty or too long", "name it as server:/path", nil)
	}
	if len(cf.Owner) == 0 || len(cf.Owner) > wire.MaxOpaque {
		return nil, cf.fail(nfs3.BadConfig, "the client's owner is empty or too long", "", nil)
	}
	c := &Client{cf: cf, sleep: nfsclient.Pause, owners: newOwners(cf.IDMap)}
	c.state.opens, c.state.locks = map[*openState]struct{}{}, map[lockKey]*lockState{}
	c.state.lingering = map[*openState]struct{}{}
	c.state.delegs.files, c.state.waiting = map[nfsclient.Handle]*delegFile{}, map[*waiter]struct{}{}
	c.life, c.end = context.WithCancel(context.Background())
	if c.delegated() {
		cf.Callbacks.Attach(calledBack{c})
	}
	machine := cf.sys(cf.Cred)
	var err error
	c.ses, err = session.Open(ctx, session.Config{Caller: cf.Caller, Binder: cf.Binder, Minor: cf.Minor, Owner: cf.Owner, Verifier: cf.Verifier,
		Machine: &machine, Host: cf.Host, RMax: cf.RSize, WMax: cf.WSize, Slots: cf.Slots, Cached: cf.Cached, Recover: c.recover,
		Callbacks: cf.Callbacks, Log: cf.Log})
	if err != nil {
		c.end()
		return nil, cf.fail(nfs3.NFSFailed, fmt.Sprintf("the server gives no session of NFS version 4.%d", cf.Minor), nfs3.OtherVersion(err), err)
	}
	if err := c.walk(ctx); err != nil {
		c.abandon(ctx)
		return nil, err
	}
	if c.paths, err = pathbuf.New(cf.Caller); err != nil {
		c.abandon(ctx)
		return nil, cf.fail(nfs3.NFSFailed, "no memory for paths", "", err)
	}
	return c, nil
}

// abandon ends the session of a mount that has failed.
func (c *Client) abandon(ctx context.Context) {
	c.end()
	if err := c.ses.Close(context.WithoutCancel(ctx)); err != nil {
		c.cf.Log.Info(fmt.Sprintf("%s: ending the session: %v", c.cf.Host, err))
	}
}

// walk finds the export's root, a component at a time, so that an error can say which is missing.
func (c *Client) walk(ctx context.Context) error {
	cr, at := c.cf.Cred, ""
	fh, attrs := &wire.GetFH{}, &wire.GetAttr{Want: mountAttrs}
	q := &request{op: "PUTROOTFH", at: 2}
	q.Ops = []wire.Operation{&wire.PutRootFH{}, fh, attrs}
	if err := c.do(ctx, cr, q); err != nil {
		return c.refused(ctx, "", "", "/", q, err)
	}
	for name := range strings.SplitSeq(c.cf.Export, "/") {
		if name == "" || name == "." {
			continue
		}
		at += "/" + name
		if name == ".." || len(name) > maxNameMax || strings.ContainsRune(name, 0) {
			return c.cf.fail(nfs3.BadConfig, fmt.Sprintf("%q is no name in the path of an export", name), "", nil)
		}
		// The replies are each other's arguments: what is parsed is kept apart.
		from := fh.Handle
		fh, attrs = &wire.GetFH{}, &wire.GetAttr{Want: mountAttrs}
		q = &request{op: "LOOKUP", at: 3}
		q.Ops = []wire.Operation{&wire.PutFH{Handle: from}, &wire.Lookup{Name: name}, fh, attrs}
		if err := c.do(ctx, cr, q); err != nil {
			return c.refused(ctx, from, name, at, q, err)
		}
	}
	if fh.Handle == "" {
		return c.cf.fail(nfs3.NFSFailed, "the server gave an empty file handle", "", nil)
	}
	a, ok := c.toAttr(&attrs.Attrs)
	switch {
	case !ok:
		return c.cf.fail(nfs3.NFSFailed, "the server leaves out type, change, size or fsid of the export's root", "", nil)
	case a.Type != nfsclient.Directory:
		return c.cf.fail(nfs3.NoExport, "the export is not a directory", "", nil)
	}
	c.root, c.rootAttr = fh.Handle, a
	c.learn(&attrs.Attrs)
	c.learnCopies(ctx)
	return nil
}

// refused explains why a component of the path, a name in dir, cannot be walked to.
func (c *Client) refused(ctx context.Context, dir nfsclient.Handle, name, path string, q *request, err error) error {
	if !answered(err) && errors.Is(err, context.Canceled) {
		return c.cf.fail(nfs3.NFSFailed, "the mount was given up", "", err)
	}
	switch q.Status {
	case wire.ErrWrongSec:
		return c.demands(path, c.flavors(ctx, c.cf.Cred, dir, name))
	case wire.ErrMoved:
		why, hint := c.led(ctx, c.cf.Cred, dir, name, path, q.Status)
		return c.cf.fail(nfs3.NoExport, why, hint, nil)
	case nfsclient.ErrNoEnt, nfsclient.ErrNotDir, wire.ErrSymlink:
		return c.cf.fail(nfs3.NoExport, fmt.Sprintf("the server has no directory %s (%s)", path, wire.StatusName(q.Status)),
			"with NFS version 4 the path is that of the pseudo file system: try / and look around", nil)
	case nfsclient.ErrAccess, nfsclient.ErrPerm:
		return c.cf.fail(nfs3.NotPermitted, fmt.Sprintf("the server does not let this client mount %s (%s)", path, wire.StatusName(q.Status)), "", nil)
	}
	return c.cf.fail(nfs3.NFSFailed, fmt.Sprintf("the server does not serve %s", path), "", err)
}
