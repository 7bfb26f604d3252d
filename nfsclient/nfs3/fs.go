package nfs3

import (
	"context"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// fsInfo asks for the server's bounds (RFC 1813 section 3.3.19).
func (c *Client) fsInfo(ctx context.Context, cr nfsclient.Cred) (nfsclient.Info, *nfsclient.Attr, error) {
	var res wire.FSInfoRes
	if err := c.do(ctx, cr, &request{op: "FSINFO", proc: wire.ProcFSInfo, args: &wire.HandleArgs{Handle: c.root},
		res: &res, status: &res.Status, replyMax: wire.FSInfoReplyMax}); err != nil {
		return nfsclient.Info{}, nil, err
	}
	lim := c.caller.Limits()
	dir := min(max(int64(res.DirPref), minReadDir), maxReadDir)
	info := nfsclient.Info{
		Version:     "3",
		ReadMax:     nfsclient.IOSize(uint64(res.ReadMax), lim.MaxRecv, c.cf.RSize),
		WriteMax:    nfsclient.IOSize(uint64(res.WriteMax), lim.MaxSend, c.cf.WSize),
		ReadDirMax:  int(dir),
		MaxFileSize: res.MaxFileSize,
		TimeDelta:   time.Duration(res.TimeDelta.Sec)*time.Second + time.Duration(res.TimeDelta.Nsec),
		Links:       res.Properties&wire.PropLink != 0,
		Symlinks:    res.Properties&wire.PropSymlink != 0,
		Homogeneous: res.Properties&wire.PropHomogeneous != 0,
		CanSetTime:  res.Properties&wire.PropCanSetTime != 0,
		NameMax:     maxNameMax,
		NoTrunc:     true,
	}
	return info, toPost(&res.Attr), nil
}

// pathConf completes c.info (RFC 1813 section 3.3.20). A server may refuse: the
// defaults then stay.
func (c *Client) pathConf(ctx context.Context, cr nfsclient.Cred) error {
	var res wire.PathConfRes
	err := c.do(ctx, cr, &request{op: "PATHCONF", proc: wire.ProcPathConf, args: &wire.HandleArgs{Handle: c.root},
		res: &res, status: &res.Status, replyMax: wire.PathConfReplyMax})
	if err != nil {
		if answered(err) {
			return nil
		}
		return err
	}
	if res.NameMax > 0 {
		c.info.NameMax = min(res.NameMax, maxNameMax)
	}
	c.info.LinkMax, c.info.NoTrunc, c.info.CaseInsensitive = res.LinkMax, res.NoTrunc, res.CaseInsensitive
	return nil
}

// StatFS implements nfsclient.Client.
func (c *Client) StatFS(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle) (nfsclient.StatFS, error) {
	var res wire.FSStatRes
	if err := c.do(ctx, cr, &request{op: "FSSTAT", proc: wire.ProcFSStat, args: &wire.HandleArgs{Handle: h},
		res: &res, status: &res.Status, replyMax: wire.FSStatReplyMax}); err != nil {
		return nfsclient.StatFS{}, err
	}
	return nfsclient.StatFS{
		TotalBytes: res.TotalBytes, FreeBytes: res.FreeBytes, AvailBytes: res.AvailBytes,
		TotalFiles: res.TotalFiles, FreeFiles: res.FreeFiles, AvailFiles: res.AvailFiles,
		NameMax: c.info.NameMax,
	}, nil
}

// GetAttr implements nfsclient.Client.
func (c *Client) GetAttr(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle) (nfsclient.Attr, error) {
	var res wire.GetAttrRes
	if err := c.do(ctx, cr, &request{op: "GETATTR", proc: wire.ProcGetAttr, args: &wire.HandleArgs{Handle: h},
		res: &res, status: &res.Status, replyMax: wire.GetAttrReplyMax}); err != nil {
		return nfsclient.Attr{}, err
	}
	return toAttr(&res.Attr), nil
}

// SetAttr implements nfsclient.Client.
func (c *Client) SetAttr(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, _ nfsclient.OpenState, s nfsclient.SetAttr) (nfsclient.Wcc, error) {
	var res wire.WccRes
	err := c.do(ctx, cr, &request{op: "SETATTR", proc: wire.ProcSetAttr,
		args: &wire.SetAttrArgs{Handle: h, Attr: fromSetAttr(&s)}, res: &res, status: &res.Status, replyMax: wire.SetAttrReplyMax})
	return wccOf(&res.Wcc, err)
}

// wccOf is what came with an answer, be it a failure.
func wccOf(w *wire.Wcc, err error) (nfsclient.Wcc, error) {
	if !answered(err) {
		return nfsclient.Wcc{}, err
	}
	return toWcc(w), err
}

// Access implements nfsclient.Client.
func (c *Client) Access(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, want nfsclient.AccessMask) (nfsclient.AccessMask, *nfsclient.Attr, error) {
	var res wire.AccessRes
	err := c.do(ctx, cr, &request{op: "ACCESS", proc: wire.ProcAccess, args: &wire.AccessArgs{Handle: h, Access: want},
		res: &res, status: &res.Status, replyMax: wire.AccessReplyMax})
	switch {
	case err == nil:
		// Servers may say more than they were asked.
		return res.Access & want, toPost(&res.Attr), nil
	case answered(err):
		return 0, toPost(&res.Attr), err
	}
	return 0, nil, err
}

// Readlink implements nfsclient.Client.
func (c *Client) Readlink(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle) (string, *nfsclient.Attr, error) {
	buf, err := c.paths.Get(ctx)
	if err != nil {
		return "", nil, err
	}
	defer c.paths.Put(buf)
	res := wire.ReadLinkRes{Target: wire.Marked(0)}
	err = c.do(ctx, cr, &request{op: "READLINK", proc: wire.ProcReadLink, args: &wire.HandleArgs{Handle: h},
		res: &res, status: &res.Status, replyMax: wire.ReadLinkReplyMax, recv: []transport.Payload{{buf}}})
	switch {
	case err == nil:
		return string(buf.Bytes()[:res.Target.Len]), toPost(&res.Attr), nil
	case answered(err):
		return "", toPost(&res.Attr), err
	}
	return "", nil, err
}
