package v4

import (
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// secured is WRONGSEC if the current filehandle must not be used as the call is secured (RFC 8881
// section 2.6.3.1). What puts another in its place, or asks how to secure calls, is always allowed.
func (c *call) secured(o wire.Operation) wire.Status {
	switch o.Op() {
	case wire.OpSecInfo, wire.OpSecInfoNoName, wire.OpRestoreFH:
		return wire.OK
	}
	if ex := c.cur.ex; ex != nil && !ex.Allows(c.q) {
		return wire.ErrWrongSec
	}
	return wire.OK
}

// Pseudo-flavors of Kerberos (RFC 2623 section 2.2.1), and what SECINFO has for them: the OID of the mechanism as DER
// encodes it, and a service.
const (
	pseudoKrb5  = 390003
	pseudoKrb5p = 390005
	oidKrb5     = "\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"
)

// flavorsOf are those that an object may be reached by, in the order of preference. The pseudo file system may be
// by any.
func flavorsOf(o object) (all []wire.Flavor) {
	if o.ex == nil {
		return []wire.Flavor{{Flavor: wire.AuthSys}, {Flavor: wire.AuthNone}}
	}
	for _, f := range o.ex.Flavors {
		if f >= pseudoKrb5 && f <= pseudoKrb5p {
			all = append(all, wire.Flavor{Flavor: wire.RPCSecGSS, OID: oidKrb5, Service: f - pseudoKrb5 + 1})
		} else {
			all = append(all, wire.Flavor{Flavor: f})
		}
	}
	return all
}
