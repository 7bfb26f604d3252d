package script

import (
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// shift adds seconds to the times in the results of the calls that clients learn
// most attributes from.
func (s *Script) shift(q *transport.Request, start int, seconds int64) {
	var res wire.Message
	var all func() []*wire.Attr
	switch q.Proc {
	case wire.ProcGetAttr:
		x := &wire.GetAttrRes{}
		res, all = x, func() []*wire.Attr { return []*wire.Attr{&x.Attr} }
	case wire.ProcLookup:
		x := &wire.LookupRes{}
		res, all = x, func() []*wire.Attr { return []*wire.Attr{&x.Attr.Attr, &x.Dir.Attr} }
	case wire.ProcAccess:
		x := &wire.AccessRes{}
		res, all = x, func() []*wire.Attr { return []*wire.Attr{&x.Attr.Attr} }
	case wire.ProcWrite:
		x := &wire.WriteRes{}
		res, all = x, func() []*wire.Attr { return []*wire.Attr{&x.Wcc.After.Attr} }
	case wire.ProcCommit:
		x := &wire.CommitRes{}
		res, all = x, func() []*wire.Attr { return []*wire.Attr{&x.Wcc.After.Attr} }
	case wire.ProcCreate, wire.ProcMkdir, wire.ProcSymlink:
		x := &wire.MadeRes{}
		res, all = x, func() []*wire.Attr { return []*wire.Attr{&x.Attr.Attr, &x.Dir.After.Attr} }
	case wire.ProcReadDirPlus:
		x := &wire.ReadDirRes{Plus: true}
		res, all = x, func() []*wire.Attr {
			a := []*wire.Attr{&x.Dir.Attr}
			for i := range x.Entries {
				a = append(a, &x.Entries[i].Attr.Attr)
			}
			return a
		}
	default:
		return
	}
	if !results(q, start, res) {
		return
	}
	for _, a := range all() {
		for _, t := range []*wire.Time{&a.Atime, &a.Mtime, &a.Ctime} {
			t.Sec = uint32(int64(t.Sec) + seconds)
		}
	}
	q.Reply.Truncate(start)
	res.Append(q.Reply)
	s.mu.Lock()
	s.struck++
	s.mu.Unlock()
}
