package v4

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
)

const (
	accessRead    = uint32(nfsclient.AccessRead)
	accessLookup  = uint32(nfsclient.AccessLookup)
	accessModify  = uint32(nfsclient.AccessModify)
	accessExtend  = uint32(nfsclient.AccessExtend)
	accessDelete  = uint32(nfsclient.AccessDelete)
	accessExecute = uint32(nfsclient.AccessExecute)
)

// access is ACCESS (RFC 8881 section 18.1, RFC 8276 section 8.6).
func (c *call) access(a *wire.Access) wire.Status {
	o := c.cur
	if o.gone != "" {
		return nfsclient.ErrStale
	}
	isDir := o.dir != nil || o.node.IsDir()
	sup := accessRead | accessModify | accessExtend
	if isDir {
		sup |= accessLookup | accessDelete
	} else {
		sup |= accessExecute
	}
	if c.comp.Minor >= 2 {
		sup |= wire.AccessXattrRead | wire.AccessXattrWrite | wire.AccessXattrList
	}
	a.Supported = a.Want & sup
	if o.dir != nil {
		a.Granted = a.Supported & (accessRead | accessLookup)
		return wire.OK
	}
	var st vfs.Stat
	if err := o.ex.Tree.Stat(o.node, &st); err != nil {
		return statusOf(err)
	}
	cr := c.cred(o.ex)
	has, err := o.ex.Tree.Allowed(&cr, o.node, &st, vfs.MayRead|vfs.MayWrite|vfs.MayExec)
	if err != nil {
		return statusOf(err)
	}
	a.Granted = a.Supported & granted(has, isDir)
	return wire.OK
}

// granted is the bits of ACCESS that rights give.
func granted(has uint32, isDir bool) (m uint32) {
	if has&vfs.MayRead != 0 {
		m |= accessRead | wire.AccessXattrRead
	}
	m |= wire.AccessXattrList
	if has&vfs.MayWrite != 0 {
		m |= accessModify | accessExtend | wire.AccessXattrWrite
	}
	switch {
	case has&vfs.MayExec == 0:
	case !isDir:
		m |= accessExecute
	default:
		m |= accessLookup
		if has&vfs.MayWrite != 0 {
			m |= accessDelete
		}
	}
	return m
}
