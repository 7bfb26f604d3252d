package nfs4

import (
	"context"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// nameAttrs are those of a listing of names alone.
var nameAttrs = wire.BitmapOf(wire.AttrRdattrError, wire.AttrFileID, wire.AttrMountedOnFileID)

// ReadDir implements nfsclient.Client (RFC 8881 section 18.23).
func (c *Client) ReadDir(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, from nfsclient.DirPos, plus bool) (nfsclient.DirPart, error) {
	// The reply must not exceed what the session and the transport take.
	most := min(growReadDir, c.ses.MaxRead())
	if lim := c.cf.Caller.Limits().MaxRecv; lim > 0 {
		most = min(most, lim)
	}
	rd := &wire.ReadDir{Cookie: from.Cookie, Verifier: from.Verifier, Want: nameAttrs.And(c.fs.supported)}
	if plus {
		rd.Want = c.fs.list
	}
	if from.Cookie == 0 {
		rd.Verifier = nfsclient.Verifier{} // RFC 8881 section 18.23.3
	}
	for size := min(c.info.ReadDirMax, most); ; size = min(2*size, most) {
		// dircount is a hint of how many bytes of names are wanted.
		rd.DirCount, rd.MaxCount, rd.Entries = uint32(size), uint32(size), nil
		q := &request{op: "READDIR", at: 2}
		q.Ops = []wire.Operation{&wire.PutFH{Handle: dir}, c.getattr(), rd}
		err := c.do(ctx, cr, q)
		if err == nil && len(rd.Entries) == 0 && !rd.EOF {
			// Neither an entry nor the end: the next entry does not fit.
			err = &nfsclient.Error{Op: q.op, Status: nfsclient.ErrTooSmall}
		}
		if st, _ := nfsclient.StatusOf(err); st == nfsclient.ErrTooSmall && size < most {
			continue
		}
		part := nfsclient.DirPart{Dir: c.attrOf(q, 1)}
		if err != nil {
			return part, settle(err)
		}
		part.Verifier, part.EOF = rd.ResVerifier, rd.EOF
		part.Entries, err = c.dirents(from.Cookie, rd)
		return part, err
	}
}

// dirents checks the entries. A name with a slash would mislead a program that joins it to a path.
// A part whose last cookie is where it began, or that of an earlier entry, or 0, would make the
// listing endless.
func (c *Client) dirents(from uint64, rd *wire.ReadDir) ([]nfsclient.Dirent, error) {
	out := make([]nfsclient.Dirent, 0, len(rd.Entries))
	for i := range rd.Entries {
		e := &rd.Entries[i]
		if !nfsclient.ValidName(e.Name) {
			return nil, broken("READDIR", "an entry named %q", e.Name)
		}
		d := nfsclient.Dirent{Name: e.Name, Cookie: e.Cookie, FileID: e.Attrs.FileID}
		if e.Attrs.Has(wire.AttrMountedOnFileID) {
			d.FileID = e.Attrs.MountedOnFileID
		}
		if !e.Attrs.Has(wire.AttrRdattrError) || e.Attrs.RdattrError == nfsclient.OK {
			if e.Attrs.Has(wire.AttrFilehandle) {
				d.Handle = e.Attrs.Filehandle
			}
			if a, ok := c.toAttr(&e.Attrs); ok {
				d.Attr = &a
			}
		}
		out = append(out, d)
	}
	if n := len(out); n > 0 && !rd.EOF && out[n-1].Cookie == from {
		return nil, broken("READDIR", "the cookie %d again", from)
	}
	if cookie, ok := leadsBack(out); ok {
		return nil, broken("READDIR", "the cookie %d where it cannot be", cookie)
	}
	return out, nil
}

// leadsBack finds a cookie that is 0 or repeats that of an earlier entry. Two entries in a row may
// have the same: servers that make cookies of the names' hashes do that once in a while.
func leadsBack(l []nfsclient.Dirent) (cookie uint64, back bool) {
	last := make(map[uint64]int, len(l))
	for i := range l {
		k := l[i].Cookie
		if k == 0 || i > 1 && k == l[i-1].Cookie && k == l[i-2].Cookie {
			return k, true
		}
		if at, ok := last[k]; ok && at != i-1 {
			return k, true
		}
		last[k] = i
	}
	return 0, false
}
