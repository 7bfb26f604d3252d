package wire

import (
	"fmt"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// FSID is fsid4.
type FSID struct{ Major, Minor uint64 }

// SetTime is settime4: of TimeServer or TimeClient; Time holds with the latter.
type SetTime struct {
	How  nfsclient.TimeSet
	Time Time
}

// Attrs is fattr4: the values of the attributes that Mask has (RFC 8881 section 5.8). To
// encode one that has no field is a programming error.
type Attrs struct {
	Mask Bitmap
	// Err is set by parsing when the list has an attribute that this package does not
	// know the size of. Mask is then what came before it; the rest of the message is
	// not affected.
	Err error

	SupportedAttrs  Bitmap
	Type            nfsclient.FileType
	FHExpireType    uint32
	Change          uint64
	Size            uint64
	LinkSupport     bool
	SymlinkSupport  bool
	NamedAttr       bool
	FSID            FSID
	UniqueHandles   bool
	LeaseTime       uint32 // seconds
	RdattrError     Status
	ACL             []ACE
	ACLSupport      uint32
	CanSetTime      bool
	CaseInsensitive bool
	CasePreserving  bool
	ChownRestricted bool
	Filehandle      nfsclient.Handle
	FileID          uint64
	FilesAvail      uint64
	FilesFree       uint64
	FilesTotal      uint64
	FSLocations     *FSLocations
	Homogeneous     bool
	MaxFileSize     uint64
	MaxLink         uint32
	MaxName         uint32
	MaxRead         uint64
	MaxWrite        uint64
	Mode            uint32
	NoTrunc         bool
	NumLinks        uint32
	Owner           string
	OwnerGroup      string
	RawDev          nfsclient.Device
	SpaceAvail      uint64
	SpaceFree       uint64
	SpaceTotal      uint64
	SpaceUsed       uint64
	TimeAccess      Time
	TimeAccessSet   SetTime
	TimeCreate      Time
	TimeDelta       Time
	TimeMetadata    Time
	TimeModify      Time
	TimeModifySet   SetTime
	MountedOnFileID uint64
	// FSLayoutTypes are the types of pNFS layouts.
	FSLayoutTypes      []uint32
	LayoutBlockSize    uint32
	SuppAttrExclCreate Bitmap
	CloneBlockSize     uint32
	ChangeAttrType     uint32
	// ModeUmask is a mode and the umask that the server may ignore when the
	// directory has default ACLs (RFC 8275).
	ModeUmask    ModeUmask
	XattrSupport bool
}

// ModeUmask is mode_umask4.
type ModeUmask struct{ Mode, Umask uint32 }

// Has reports whether the attribute is there.
func (a *Attrs) Has(n AttrNum) bool { return a.Mask.Has(n) }

func (a *Attrs) append(w *xdr.Writer) {
	a.Mask.append(w)
	at := len(w.Bytes())
	w.Uint32(0)
	a.Mask.each(func(n AttrNum) bool {
		if !a.appendOne(w, n) {
			panic(fmt.Sprintf("nfs4/wire: attribute %d has no encoding", n))
		}
		return true
	})
	w.SetUint32(at, uint32(len(w.Bytes())-at-4))
}

func (a *Attrs) parse(r *xdr.Reader) {
	var mask Bitmap
	lost := mask.parse(r)
	a.Mask, a.Err = Bitmap{}, nil
	var list xdr.Reader
	list.Reset(r.Opaque(maxAttrs), nil)
	if r.Err() != nil {
		return
	}
	unknown := false
	mask.each(func(n AttrNum) bool {
		if !a.parseOne(&list, n) {
			unknown = true
			a.Err = fmt.Errorf("attribute %d is not known", n)
			return false
		}
		a.Mask.Add(n)
		return list.Err() == nil
	})
	switch {
	case list.Err() != nil:
		r.Fail("attributes %x: %v", mask, list.Err())
	case unknown:
	case lost:
		a.Err = fmt.Errorf("an attribute above %d is not known", 32*BitmapWords-1)
	case list.Remaining() > 0:
		r.Fail("%d bytes behind the attributes %x", list.Remaining(), mask)
	}
}

// FSLocations is fs_locations4: where else this file system, or the one that was moved
// away, is found.
type FSLocations struct {
	Root      []string
	Locations []FSLocation
}

// FSLocation is fs_location4.
type FSLocation struct {
	Servers []string
	Root    []string
}

func appendStrings(w *xdr.Writer, list []string) {
	w.Uint32(uint32(len(list)))
	for _, s := range list {
		w.String(s)
	}
}

// maxFSElements bounds each list in fs_locations, of which an element takes at least a
// word.
const maxFSElements = MaxFSLocations / 4

func parseStrings(r *xdr.Reader) (list []string) {
	for range r.Count(maxFSElements) {
		list = append(list, r.String(MaxName))
		if r.Err() != nil {
			return nil
		}
	}
	return list
}

func (l *FSLocations) append(w *xdr.Writer) {
	if l == nil {
		l = &FSLocations{}
	}
	appendStrings(w, l.Root)
	w.Uint32(uint32(len(l.Locations)))
	for i := range l.Locations {
		appendStrings(w, l.Locations[i].Servers)
		appendStrings(w, l.Locations[i].Root)
	}
}

func (l *FSLocations) parse(r *xdr.Reader) {
	start := r.Offset()
	l.Root = parseStrings(r)
	for n := r.Count(maxFSElements); n > 0 && r.Err() == nil; n-- {
		l.Locations = append(l.Locations, FSLocation{parseStrings(r), parseStrings(r)})
	}
	if r.Offset()-start > MaxFSLocations {
		r.Fail("fs_locations of %d bytes", r.Offset()-start)
	}
}

func (t *SetTime) append(w *xdr.Writer) {
	if t.How == nfsclient.TimeClient {
		w.Uint32(1)
		t.Time.append(w)
	} else {
		w.Uint32(0)
	}
}

func (t *SetTime) parse(r *xdr.Reader) {
	*t = SetTime{How: nfsclient.TimeServer}
	if parseEnum(r, "time_how4", 0, 1) == 1 {
		t.How = nfsclient.TimeClient
		t.Time.parse(r)
	}
}
