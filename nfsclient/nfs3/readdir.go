package nfs3

import (
	"context"
	"fmt"
	"sync"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
)

// ReadDir implements nfsclient.Client (RFC 1813 sections 3.3.16 and 3.3.17).
func (c *Client) ReadDir(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, from nfsclient.DirPos, plus bool) (nfsclient.DirPart, error) {
	// The reply must not exceed what the transport takes.
	most := growReadDir
	if lim := c.caller.Limits().MaxRecv; lim > 0 {
		most = min(most, lim)
	}
	for size := min(c.info.ReadDirMax, most); ; size = min(2*size, most) {
		plus = plus && !c.noPlus.Load()
		res := readDirResults.Get().(*wire.ReadDirRes)
		*res = wire.ReadDirRes{Plus: plus, Entries: res.Entries[:0]}
		err := c.do(ctx, cr, readDirRequest(dir, from, plus, uint32(size), res))
		if st, _ := nfsclient.StatusOf(err); plus && st == nfsclient.ErrNotSupp {
			c.noPlus.Store(true)
			c.cf.Log.Info(fmt.Sprintf("%s: server has no READDIRPLUS", c.cf.Host))
			return c.ReadDir(ctx, cr, dir, from, false)
		}
		if err == nil && len(res.Entries) == 0 && !res.EOF {
			// Neither an entry nor the end: the next entry does not fit.
			err = &nfsclient.Error{Op: readDirOp(plus), Status: nfsclient.ErrTooSmall}
		}
		if st, _ := nfsclient.StatusOf(err); st == nfsclient.ErrTooSmall && size < most {
			continue
		}
		if !answered(err) {
			return nfsclient.DirPart{}, err
		}
		part := nfsclient.DirPart{Dir: toPost(&res.Dir)}
		if err != nil {
			return part, err
		}
		part.Verifier, part.EOF = res.Verifier, res.EOF
		part.Entries, err = dirents(from.Cookie, res)
		// After an error a reply that is late may still be read into it.
		if cap(res.Entries) <= maxPooledEntries {
			clear(res.Entries)
			readDirResults.Put(res)
		}
		return part, err
	}
}

// readDirResults are empty results with room for entries: an entry takes 200 bytes, and
// who grows a slice to hundreds moves and clears as many again.
var readDirResults = sync.Pool{New: func() any { return new(wire.ReadDirRes) }}

// maxPooledEntries is what 256 KiB have of READDIRPLUS with short names.
const maxPooledEntries = 2048

func readDirOp(plus bool) string {
	if plus {
		return "READDIRPLUS"
	}
	return "READDIR"
}

func readDirRequest(dir nfsclient.Handle, from nfsclient.DirPos, plus bool, size uint32, res *wire.ReadDirRes) *request {
	q := &request{op: readDirOp(plus), res: res, status: &res.Status, replyMax: wire.ReadDirReplyMax(size)}
	if !plus {
		q.proc = wire.ProcReadDir
		q.args = &wire.ReadDirArgs{Dir: dir, Cookie: from.Cookie, Verifier: from.Verifier, Count: size}
		return q
	}
	// dircount bounds the bytes of names in the reply; maxcount is the bound that
	// counts, so dircount is set no lower.
	q.proc = wire.ProcReadDirPlus
	q.args = &wire.ReadDirPlusArgs{Dir: dir, Cookie: from.Cookie, Verifier: from.Verifier, DirCount: size, MaxCount: size}
	return q
}

// dirents checks the entries. A name with a slash would mislead a program that joins it
// to a path. A part whose last cookie is where it began, or that of an earlier entry, or
// 0, would make the listing endless.
func dirents(from uint64, res *wire.ReadDirRes) ([]nfsclient.Dirent, error) {
	out := make([]nfsclient.Dirent, len(res.Entries))
	var attrs []nfsclient.Attr // of all, allocated at once
	if res.Plus {
		attrs = make([]nfsclient.Attr, len(res.Entries))
	}
	for i := range res.Entries {
		e := &res.Entries[i]
		if !nfsclient.ValidName(e.Name) {
			return nil, broken(readDirOp(res.Plus), "an entry named %q", e.Name)
		}
		out[i] = nfsclient.Dirent{FileID: e.FileID, Name: e.Name, Cookie: e.Cookie}
		if e.Handle.Set {
			out[i].Handle = e.Handle.Handle
		}
		if e.Attr.Set {
			attrs[i] = toAttr(&e.Attr.Attr)
			out[i].Attr = &attrs[i]
		}
	}
	if n := len(out); n > 0 && !res.EOF && out[n-1].Cookie == from {
		return nil, broken(readDirOp(res.Plus), "the cookie %d again", from)
	}
	if c, ok := leadsBack(out); ok {
		return nil, broken(readDirOp(res.Plus), "the cookie %d where it cannot be", c)
	}
	return out, nil
}

// leadsBack finds a cookie that is 0 or repeats that of an earlier entry. Two entries in
// a row may have the same: servers that make cookies of the names' hashes do
// that once in a while.
func leadsBack(l []nfsclient.Dirent) (cookie uint64, back bool) {
	rising := true
	for i := range l {
		c := l[i].Cookie
		if c == 0 || i > 1 && c == l[i-1].Cookie && c == l[i-2].Cookie {
			return c, true
		}
		rising = rising && (i == 0 || c >= l[i-1].Cookie)
	}
	if rising {
		return 0, false
	}
	last := make(map[uint64]int, len(l))
	for i := range l {
		if at, ok := last[l[i].Cookie]; ok && at != i-1 {
			return l[i].Cookie, true
		}
		last[l[i].Cookie] = i
	}
	return 0, false
}
