package wire

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// FSStatRes is the results of FSSTAT (RFC 1813 section 3.3.18). Attr holds in
// both arms, here and below.
type FSStatRes struct {
	Status                            nfsclient.Status
	Attr                              PostAttr
	TotalBytes, FreeBytes, AvailBytes uint64
	TotalFiles, FreeFiles, AvailFiles uint64
	// InvarSec is for how many seconds this is expected not to change.
	InvarSec uint32
}

func (a *FSStatRes) Append(w *xdr.Writer) {
	w.Uint32(uint32(a.Status))
	a.Attr.append(w)
	if a.Status != nfsclient.OK {
		return
	}
	for _, v := range [...]uint64{a.TotalBytes, a.FreeBytes, a.AvailBytes, a.TotalFiles, a.FreeFiles, a.AvailFiles} {
		w.Uint64(v)
	}
	w.Uint32(a.InvarSec)
}

func (a *FSStatRes) Parse(r *xdr.Reader) {
	a.Status = parseStatus(r)
	a.Attr.parse(r)
	if a.Status != nfsclient.OK {
		return
	}
	for _, p := range [...]*uint64{&a.TotalBytes, &a.FreeBytes, &a.AvailBytes, &a.TotalFiles, &a.FreeFiles, &a.AvailFiles} {
		*p = r.Uint64()
	}
	a.InvarSec = r.Uint32()
}

// Properties of FSInfoRes (section 3.3.19).
const (
	PropLink        = 0x0001
	PropSymlink     = 0x0002
	PropHomogeneous = 0x0008
	PropCanSetTime  = 0x0010
)

// FSInfoRes is the results of FSINFO: bounds, preferences and granularity of
// reads and writes, the preferred size of READDIR.
type FSInfoRes struct {
	Status                         nfsclient.Status
	Attr                           PostAttr
	ReadMax, ReadPref, ReadMult    uint32
	WriteMax, WritePref, WriteMult uint32
	DirPref                        uint32
	MaxFileSize                    uint64
	TimeDelta                      Time
	Properties                     uint32
}

func (a *FSInfoRes) Append(w *xdr.Writer) {
	w.Uint32(uint32(a.Status))
	a.Attr.append(w)
	if a.Status != nfsclient.OK {
		return
	}
	for _, v := range [...]uint32{a.ReadMax, a.ReadPref, a.ReadMult, a.WriteMax, a.WritePref, a.WriteMult, a.DirPref} {
		w.Uint32(v)
	}
	w.Uint64(a.MaxFileSize)
	a.TimeDelta.append(w)
	w.Uint32(a.Properties)
}

func (a *FSInfoRes) Parse(r *xdr.Reader) {
	a.Status = parseStatus(r)
	a.Attr.parse(r)
	if a.Status != nfsclient.OK {
		return
	}
	for _, p := range [...]*uint32{&a.ReadMax, &a.ReadPref, &a.ReadMult, &a.WriteMax, &a.WritePref, &a.WriteMult, &a.DirPref} {
		*p = r.Uint32()
	}
	a.MaxFileSize = r.Uint64()
	a.TimeDelta.parse(r)
	a.Properties = r.Uint32()
}

// PathConfRes is the results of PATHCONF (section 3.3.20).
type PathConfRes struct {
	Status                          nfsclient.Status
	Attr                            PostAttr
	LinkMax, NameMax                uint32
	NoTrunc, ChownRestricted        bool
	CaseInsensitive, CasePreserving bool
}

func (a *PathConfRes) Append(w *xdr.Writer) {
	w.Uint32(uint32(a.Status))
	a.Attr.append(w)
	if a.Status != nfsclient.OK {
		return
	}
	w.Uint32(a.LinkMax)
	w.Uint32(a.NameMax)
	w.Bool(a.NoTrunc)
	w.Bool(a.ChownRestricted)
	w.Bool(a.CaseInsensitive)
	w.Bool(a.CasePreserving)
}

func (a *PathConfRes) Parse(r *xdr.Reader) {
	a.Status = parseStatus(r)
	a.Attr.parse(r)
	if a.Status != nfsclient.OK {
		return
	}
	a.LinkMax, a.NameMax = r.Uint32(), r.Uint32()
	a.NoTrunc, a.ChownRestricted = r.Bool(), r.Bool()
	a.CaseInsensitive, a.CasePreserving = r.Bool(), r.Bool()
}
