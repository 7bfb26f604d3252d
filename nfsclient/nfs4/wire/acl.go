package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// sizeLeastACE is the length of an ACE whose who is empty.
const sizeLeastACE = 4 * 4

// AppendACL appends fattr4_acl (RFC 8881 section 6.2.1), which is also what Linux and nfs4-acl-tools have as the value of
// the extended attribute system.nfs4_acl.
func AppendACL(w *xdr.Writer, l []ACE) {
	w.Uint32(uint32(len(l)))
	for i := range l {
		l[i].append(w)
	}
}

// ParseACL reads what AppendACL appends, up to MaxACL bytes.
func ParseACL(r *xdr.Reader) (l []ACE) {
	start := r.Offset()
	for n := r.Count(MaxACL / sizeLeastACE); n > 0 && r.Err() == nil; n-- {
		var e ACE
		e.parse(r)
		l = append(l, e)
	}
	if r.Offset()-start > MaxACL {
		r.Fail("an access control list of %d bytes", r.Offset()-start)
	}
	return l
}
