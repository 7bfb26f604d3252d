package wire

import (
	"fmt"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// MountStatus is mountstat3 (RFC 1813 section 5.1.5).
type MountStatus uint32

const (
	MountOK             MountStatus = 0
	MountErrPerm        MountStatus = 1
	MountErrNoEnt       MountStatus = 2
	MountErrIO          MountStatus = 5
	MountErrAccess      MountStatus = 13
	MountErrNotDir      MountStatus = 20
	MountErrInval       MountStatus = 22
	MountErrNameTooLong MountStatus = 63
	MountErrNotSupp     MountStatus = 10004
	MountErrServerFault MountStatus = 10006
)

func (s MountStatus) String() string {
	switch s {
	case MountOK:
		return "ok"
	case MountErrPerm:
		return "not owner"
	case MountErrNoEnt:
		return "no such directory"
	case MountErrIO:
		return "I/O error"
	case MountErrAccess:
		return "permission denied"
	case MountErrNotDir:
		return "not a directory"
	case MountErrInval:
		return "invalid argument"
	case MountErrNameTooLong:
		return "path too long"
	case MountErrNotSupp:
		return "not supported"
	case MountErrServerFault:
		return "server fault"
	}
	return fmt.Sprintf("mount status %d", uint32(s))
}

// Flavors of authentication (RFC 5531 section 8.2).
const (
	AuthNone = 0
	AuthSys  = 1
)

// PathArgs is the arguments of MNT and UMNT (RFC 1813 sections 5.2.1, 5.2.3).
type PathArgs struct{ Path string }

func (a *PathArgs) Append(w *xdr.Writer) { w.String(a.Path) }
func (a *PathArgs) Parse(r *xdr.Reader)  { a.Path = r.String(MaxMountPath) }

// MntRes is the results of MNT.
type MntRes struct {
	Status  MountStatus
	Handle  nfsclient.Handle
	Flavors []uint32
}

func (a *MntRes) Append(w *xdr.Writer) {
	w.Uint32(uint32(a.Status))
	if a.Status != MountOK {
		return
	}
	appendHandle(w, a.Handle)
	w.Uint32(uint32(len(a.Flavors)))
	for _, f := range a.Flavors {
		w.Uint32(f)
	}
}

func (a *MntRes) Parse(r *xdr.Reader) {
	a.Flavors = a.Flavors[:0]
	if a.Status = MountStatus(r.Uint32()); a.Status != MountOK {
		return
	}
	a.Handle = parseHandle(r)
	for n := r.Count(MaxFlavors); n > 0 && r.Err() == nil; n-- {
		a.Flavors = append(a.Flavors, r.Uint32())
	}
}

// MountEntry is one line of DUMP: a client and what it has mounted.
type MountEntry struct{ Host, Path string }

// DumpRes is the results of DUMP (section 5.2.2).
type DumpRes struct{ Mounts []MountEntry }

func (a *DumpRes) Append(w *xdr.Writer) {
	for _, m := range a.Mounts {
		w.Bool(true)
		w.String(m.Host)
		w.String(m.Path)
	}
	w.Bool(false)
}

func (a *DumpRes) Parse(r *xdr.Reader) {
	a.Mounts = a.Mounts[:0]
	for r.Bool() {
		a.Mounts = append(a.Mounts, MountEntry{Host: r.String(MaxMountName), Path: r.String(MaxMountPath)})
	}
}

// ExportEntry is an export and who may mount it; no groups means everyone.
type ExportEntry struct {
	Path   string
	Groups []string
}

// ExportRes is the results of EXPORT (section 5.2.5).
type ExportRes struct{ Exports []ExportEntry }

func (a *ExportRes) Append(w *xdr.Writer) {
	for _, e := range a.Exports {
		w.Bool(true)
		w.String(e.Path)
		for _, g := range e.Groups {
			w.Bool(true)
			w.String(g)
		}
		w.Bool(false)
	}
	w.Bool(false)
}

func (a *ExportRes) Parse(r *xdr.Reader) {
	a.Exports = a.Exports[:0]
	for r.Bool() {
		e := ExportEntry{Path: r.String(MaxMountPath)}
		for r.Bool() {
			e.Groups = append(e.Groups, r.String(MaxMountName))
		}
		a.Exports = append(a.Exports, e)
	}
}
