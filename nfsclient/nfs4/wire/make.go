package wire

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Create is CREATE (RFC 8881 section 18.4), which makes all but regular files. Target
// holds with SymbolicLink and may be a payload, Dev with devices. Other types are carried
// so that a server can refuse them with NFS4ERR_BADTYPE.
type Create struct {
	Type   nfsclient.FileType
	Target Bulk
	Dev    nfsclient.Device
	Name   string
	Attrs  Attrs
	// Results.
	Change  ChangeInfo
	AttrSet Bitmap
}

func (*Create) Op() Op { return OpCreate }

func (o *Create) AppendArgs(w *xdr.Writer) {
	w.Uint32(uint32(o.Type))
	switch o.Type {
	case nfsclient.SymbolicLink:
		o.Target.Append(w)
	case nfsclient.BlockDevice, nfsclient.CharDevice:
		w.Uint32(o.Dev.Major)
		w.Uint32(o.Dev.Minor)
	}
	w.String(o.Name)
	o.Attrs.append(w)
}

func (o *Create) ParseArgs(r *xdr.Reader) {
	switch o.Type = parseType(r); o.Type {
	case nfsclient.SymbolicLink:
		o.Target.Parse(r, MaxPath)
	case nfsclient.BlockDevice, nfsclient.CharDevice:
		o.Dev.Major, o.Dev.Minor = r.Uint32(), r.Uint32()
	}
	parseString(r, &o.Name, MaxName)
	o.Attrs.parse(r)
}

func (o *Create) AppendRes(w *xdr.Writer, st Status) {
	if st == OK {
		o.Change.append(w)
		o.AttrSet.append(w)
	}
}

func (o *Create) ParseRes(r *xdr.Reader, st Status) {
	if st == OK {
		o.Change.parse(r)
		o.AttrSet.parse(r)
	}
}

func (*Create) ReplyMax() int { return sizeOp + sizeChange + sizeBitmap }
