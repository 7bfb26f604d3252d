package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// Flavor is secinfo4. OID, QOP and Service hold with RPCSecGSS.
type Flavor struct {
	Flavor  uint32
	OID     string
	QOP     uint32
	Service uint32
}

const sizeFlavor = 4 + 4 + MaxOID + 4 + 4

// flavorsRes is the results of SECINFO and SECINFO_NO_NAME.
type flavorsRes struct {
	// Flavors are in the server's order of preference.
	Flavors []Flavor
}

func (f *flavorsRes) AppendRes(w *xdr.Writer, st Status) {
	if st != OK {
		return
	}
	w.Uint32(uint32(len(f.Flavors)))
	for i := range f.Flavors {
		s := &f.Flavors[i]
		w.Uint32(s.Flavor)
		if s.Flavor == RPCSecGSS {
			w.String(s.OID)
			w.Uint32(s.QOP)
			w.Uint32(s.Service)
		}
	}
}

func (f *flavorsRes) ParseRes(r *xdr.Reader, st Status) {
	f.Flavors = f.Flavors[:0]
	if st != OK {
		return
	}
	for n := r.Count(MaxFlavors); n > 0 && r.Err() == nil; n-- {
		s := Flavor{Flavor: r.Uint32()}
		if s.Flavor == RPCSecGSS {
			s.OID, s.QOP, s.Service = r.String(MaxOID), r.Uint32(), r.Uint32()
		}
		f.Flavors = append(f.Flavors, s)
	}
}

func (*flavorsRes) ReplyMax() int { return sizeOp + 4 + MaxFlavors*sizeFlavor }

// SecInfo is SECINFO (RFC 8881 section 18.29). It uses up the current filehandle.
type SecInfo struct {
	Name string
	// Results.
	flavorsRes
}

func (*SecInfo) Op() Op                     { return OpSecInfo }
func (o *SecInfo) AppendArgs(w *xdr.Writer) { w.String(o.Name) }
func (o *SecInfo) ParseArgs(r *xdr.Reader)  { parseString(r, &o.Name, MaxName) }

// SecInfoNoName is SECINFO_NO_NAME (section 18.45). It uses up the current filehandle.
type SecInfoNoName struct {
	Parent bool
	// Results.
	flavorsRes
}

func (*SecInfoNoName) Op() Op                     { return OpSecInfoNoName }
func (o *SecInfoNoName) AppendArgs(w *xdr.Writer) { w.Bool(o.Parent) }
func (o *SecInfoNoName) ParseArgs(r *xdr.Reader)  { o.Parent = r.Bool() }
