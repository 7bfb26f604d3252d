package nfs4

import (
	"context"
	"errors"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// fileSystem is what the server has said of the file system at the root, at mount time.
type fileSystem struct {
	supported wire.Bitmap
	exclusive wire.Bitmap // what an exclusive create may set
	make      wire.Bitmap // what only what makes a file may set
	// stat and list are the attributes asked for of a file, and of each entry of a listing.
	stat, list wire.Bitmap
}

// mountAttrs are the attributes that a mount asks of its root.
var mountAttrs = wire.BitmapOf(wire.AttrSupportedAttrs, wire.AttrLinkSupport, wire.AttrSymlinkSupport,
	wire.AttrLeaseTime, wire.AttrCanSetTime, wire.AttrCaseInsensitive, wire.AttrHomogeneous, wire.AttrMaxFileSize, wire.AttrMaxLink,
	wire.AttrMaxName, wire.AttrMaxRead, wire.AttrMaxWrite, wire.AttrNoTrunc, wire.AttrTimeDelta, wire.AttrSuppAttrExclCreate, wire.AttrACLSupport).Or(statAttrs)

// learn takes over what the root's attributes say.
func (c *Client) learn(a *wire.Attrs) {
	c.fs.supported = a.SupportedAttrs
	if !a.Has(wire.AttrSupportedAttrs) {
		c.fs.supported = statAttrs
	}
	if a.Has(wire.AttrSuppAttrExclCreate) {
		c.fs.exclusive = a.SuppAttrExclCreate
	}
	if c.cf.Minor >= 2 && a.Has(wire.AttrACLSupport) && a.ACLSupport != 0 {
		// Without access control lists nothing stands in the umask's place.
		c.fs.make = wire.BitmapOf(wire.AttrModeUmask).And(c.fs.supported)
	}
	c.fs.stat = statAttrs.And(c.fs.supported)
	c.fs.list = c.fs.stat.Or(wire.BitmapOf(wire.AttrRdattrError, wire.AttrFilehandle, wire.AttrMountedOnFileID).And(c.fs.supported))
	lim := c.cf.Caller.Limits()
	i := nfsclient.Info{
		Version:     "4.1",
		ReadMax:     nfsclient.IOSize(a.MaxRead, lim.MaxRecv, c.ses.MaxRead(), c.cf.RSize),
		WriteMax:    nfsclient.IOSize(a.MaxWrite, lim.MaxSend, c.ses.MaxWrite(), c.cf.WSize),
		ReadDirMax:  readDirSize,
		MaxFileSize: 1<<63 - 1,
		NameMax:     maxNameMax,
		NoTrunc:     true,
		NFS4ACLs:    a.Has(wire.AttrACLSupport) && a.ACLSupport != 0 && c.fs.supported.Has(wire.AttrACL),
		Umask:       c.fs.make.Has(wire.AttrModeUmask),
		Links:       true, Symlinks: true, Homogeneous: true, CanSetTime: true,
	}
	if c.cf.Minor == 2 {
		i.Version = "4.2"
	}
	if a.Has(wire.AttrMaxFileSize) && a.MaxFileSize > 0 {
		i.MaxFileSize = a.MaxFileSize
	}
	if a.Has(wire.AttrTimeDelta) && a.TimeDelta.Sec >= 0 && a.TimeDelta.Sec <= 3600 {
		i.TimeDelta = time.Duration(a.TimeDelta.Sec)*time.Second + time.Duration(a.TimeDelta.Nsec)
	}
	if a.Has(wire.AttrMaxName) && a.MaxName > 0 {
		i.NameMax = min(a.MaxName, maxNameMax)
	}
	for _, b := range []struct {
		n    wire.AttrNum
		v    bool
		into *bool
	}{{wire.AttrLinkSupport, a.LinkSupport, &i.Links}, {wire.AttrSymlinkSupport, a.SymlinkSupport, &i.Symlinks},
		{wire.AttrHomogeneous, a.Homogeneous, &i.Homogeneous}, {wire.AttrCanSetTime, a.CanSetTime, &i.CanSetTime},
		{wire.AttrNoTrunc, a.NoTrunc, &i.NoTrunc}, {wire.AttrCaseInsensitive, a.CaseInsensitive, &i.CaseInsensitive}} {
		if a.Has(b.n) {
			*b.into = b.v
		}
	}
	if a.Has(wire.AttrMaxLink) {
		i.LinkMax = a.MaxLink
	}
	c.info = i
}

// learnCopies asks for the block size of CLONE. Not of every server at once: nfs-ganesha answers INVAL to who asks for
// an attribute that it does not know.
func (c *Client) learnCopies(ctx context.Context) {
	c.copies.blockSize = cloneBlock
	if c.cf.Minor < 2 || !c.fs.supported.Has(wire.AttrCloneBlockSize) {
		return
	}
	g := &wire.GetAttr{Want: wire.BitmapOf(wire.AttrCloneBlockSize)}
	q := &request{op: "GETATTR", at: 1}
	q.Ops = []wire.Operation{&wire.PutFH{Handle: c.root}, g}
	if c.do(ctx, c.cf.Cred, q) == nil && g.Attrs.Has(wire.AttrCloneBlockSize) && g.Attrs.CloneBlockSize > 0 {
		c.copies.blockSize = uint64(g.Attrs.CloneBlockSize)
	}
}

func (c *Client) getattr() *wire.GetAttr { return &wire.GetAttr{Want: c.fs.stat} }

// statfsAttrs are those of StatFS.
var statfsAttrs = wire.BitmapOf(wire.AttrSpaceTotal, wire.AttrSpaceFree, wire.AttrSpaceAvail, wire.AttrFilesTotal, wire.AttrFilesFree, wire.AttrFilesAvail)

// StatFS implements nfsclient.Client.
func (c *Client) StatFS(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle) (nfsclient.StatFS, error) {
	g := &wire.GetAttr{Want: statfsAttrs}
	q := &request{op: "GETATTR", at: 1}
	q.Ops = []wire.Operation{&wire.PutFH{Handle: h}, g}
	if err := c.do(ctx, cr, q); err != nil {
		return nfsclient.StatFS{}, settle(err)
	}
	a := &g.Attrs
	return nfsclient.StatFS{
		TotalBytes: a.SpaceTotal, FreeBytes: a.SpaceFree, AvailBytes: a.SpaceAvail,
		TotalFiles: a.FilesTotal, FreeFiles: a.FilesFree, AvailFiles: a.FilesAvail,
		NameMax: c.info.NameMax,
	}, nil
}

// GetAttr implements nfsclient.Client.
func (c *Client) GetAttr(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle) (nfsclient.Attr, error) {
	if a, ok := c.knownAttr(h); ok {
		return a, nil
	}
	asked := c.before(h)
	q := &request{op: "GETATTR", at: 1}
	q.Ops = []wire.Operation{&wire.PutFH{Handle: h}, c.getattr()}
	if err := c.do(ctx, cr, q); err != nil {
		return nfsclient.Attr{}, settle(err)
	}
	a, ok := c.postOf(q, 1)
	if !ok {
		return a, broken(q.op, "no type, change, size or fsid")
	}
	c.covered(asked, &a)
	return a, nil
}

// SetAttr implements nfsclient.Client. A size is set with the state of an opening for writing, if
// there is one: without, servers may refuse it during a grace period.
func (c *Client) SetAttr(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, s nfsclient.SetAttr) (nfsclient.Wcc, error) {
	o, err := opening(st)
	if err != nil {
		return nfsclient.Wcc{}, err
	}
	if s.Size == nil || o != nil && o.access&nfsclient.OpenWrite == 0 {
		o = nil
	}
	done, err := c.alter(ctx, h)
	if err != nil {
		return nfsclient.Wcc{}, err
	}
	defer done()
	var w nfsclient.Wcc
	err = c.withOwners(func(names bool) (err error) {
		w, err = c.setAttr(ctx, cr, h, o, s, names)
		return err
	})
	return w, settle(err)
}

func isBadOwner(err error) bool {
	var e *statusError
	return errors.As(err, &e) && e.status == wire.ErrBadOwner
}

func (c *Client) setAttr(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, o *openState, s nfsclient.SetAttr, names bool) (nfsclient.Wcc, error) {
	set := &wire.SetAttr{Attrs: c.toSet(&s, names)}
	if set.Attrs.Mask.Empty() {
		a, err := c.GetAttr(ctx, cr, h)
		return nfsclient.Wcc{After: nfsclient.PostAttr{Set: err == nil, Attr: a}}, err
	}
	q := &request{op: "SETATTR", at: 1}
	q.Ops, q.Cache = []wire.Operation{&wire.PutFH{Handle: h}, set, c.getattr()}, true
	err := c.withState(ctx, cr, q, o, &set.Stateid)
	if err != nil {
		return nfsclient.Wcc{}, err
	}
	var w nfsclient.Wcc
	w.After.Attr, w.After.Set = c.postOf(q, 2)
	return w, nil
}

// Access implements nfsclient.Client.
func (c *Client) Access(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, want nfsclient.AccessMask) (nfsclient.AccessMask, *nfsclient.Attr, error) {
	acc := &wire.Access{Want: uint32(want)}
	q := &request{op: "ACCESS", at: 1}
	q.Ops = []wire.Operation{&wire.PutFH{Handle: h}, acc, c.getattr()}
	if err := c.do(ctx, cr, q); err != nil {
		return 0, nil, settle(err)
	}
	return nfsclient.AccessMask(acc.Granted) & want, c.attrOf(q, 2), nil
}
