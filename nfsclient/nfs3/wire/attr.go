package wire

import (
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Time is nfstime3: seconds since 1970, unsigned, and nanoseconds.
type Time struct{ Sec, Nsec uint32 }

// TimeOf is t as a Time; what does not fit becomes the nearest that does.
func TimeOf(t time.Time) Time {
	switch s := t.Unix(); {
	case s < 0:
		return Time{}
	case s > 1<<32-1:
		return Time{Sec: 1<<32 - 1, Nsec: 999999999}
	default:
		return Time{Sec: uint32(s), Nsec: uint32(t.Nanosecond())}
	}
}

// Time is t as a time.Time.
func (t Time) Time() time.Time { return time.Unix(int64(t.Sec), int64(t.Nsec)) }

func (t Time) append(w *xdr.Writer) {
	w.Uint32(t.Sec)
	w.Uint32(t.Nsec)
}

func (t *Time) parse(r *xdr.Reader) { t.Sec, t.Nsec = r.Uint32(), r.Uint32() }

// Attr is fattr3 (RFC 1813 section 2.6).
type Attr struct {
	Type                nfsclient.FileType
	Mode, Nlink         uint32
	UID, GID            uint32
	Size, Used          uint64
	Rdev                nfsclient.Device
	FSID, FileID        uint64
	Atime, Mtime, Ctime Time
}

func (a *Attr) append(w *xdr.Writer) {
	w.Uint32(uint32(a.Type))
	w.Uint32(a.Mode)
	w.Uint32(a.Nlink)
	w.Uint32(a.UID)
	w.Uint32(a.GID)
	w.Uint64(a.Size)
	w.Uint64(a.Used)
	w.Uint32(a.Rdev.Major)
	w.Uint32(a.Rdev.Minor)
	w.Uint64(a.FSID)
	w.Uint64(a.FileID)
	a.Atime.append(w)
	a.Mtime.append(w)
	a.Ctime.append(w)
}

func (a *Attr) parse(r *xdr.Reader) {
	a.Type = parseType(r)
	a.Mode, a.Nlink, a.UID, a.GID = r.Uint32(), r.Uint32(), r.Uint32(), r.Uint32()
	a.Size, a.Used = r.Uint64(), r.Uint64()
	a.Rdev.Major, a.Rdev.Minor = r.Uint32(), r.Uint32()
	a.FSID, a.FileID = r.Uint64(), r.Uint64()
	a.Atime.parse(r)
	a.Mtime.parse(r)
	a.Ctime.parse(r)
}

func parseType(r *xdr.Reader) nfsclient.FileType {
	v := r.Uint32()
	if r.Err() == nil && (v < uint32(nfsclient.Regular) || v > uint32(nfsclient.FIFO)) {
		r.Fail("file type %d", v)
	}
	return nfsclient.FileType(v)
}

// PostAttr is post_op_attr: attributes that a server may leave out.
type PostAttr struct {
	Set  bool
	Attr Attr
}

func (p *PostAttr) append(w *xdr.Writer) {
	w.Bool(p.Set)
	if p.Set {
		p.Attr.append(w)
	}
}

func (p *PostAttr) parse(r *xdr.Reader) {
	if p.Set = r.Bool(); p.Set {
		p.Attr.parse(r)
	}
}

// PreAttr is pre_op_attr with wcc_attr in it.
type PreAttr struct {
	Set          bool
	Size         uint64
	Mtime, Ctime Time
}

// Wcc is wcc_data.
type Wcc struct {
	Before PreAttr
	After  PostAttr
}

func (c *Wcc) append(w *xdr.Writer) {
	w.Bool(c.Before.Set)
	if c.Before.Set {
		w.Uint64(c.Before.Size)
		c.Before.Mtime.append(w)
		c.Before.Ctime.append(w)
	}
	c.After.append(w)
}

func (c *Wcc) parse(r *xdr.Reader) {
	if c.Before.Set = r.Bool(); c.Before.Set {
		c.Before.Size = r.Uint64()
		c.Before.Mtime.parse(r)
		c.Before.Ctime.parse(r)
	}
	c.After.parse(r)
}

// OptUint32 and OptUint64 are set_mode3, set_uid3, set_gid3 and set_size3.
type OptUint32 struct {
	Set bool
	V   uint32
}

type OptUint64 struct {
	Set bool
	V   uint64
}

// SetTime is set_atime and set_mtime; T holds with nfsclient.TimeClient.
type SetTime struct {
	How nfsclient.TimeSet
	T   Time
}

// SetAttr is sattr3.
type SetAttr struct {
	Mode, UID, GID OptUint32
	Size           OptUint64
	Atime, Mtime   SetTime
}

func (o OptUint32) append(w *xdr.Writer) {
	w.Bool(o.Set)
	if o.Set {
		w.Uint32(o.V)
	}
}

func (o *OptUint32) parse(r *xdr.Reader) {
	if o.Set = r.Bool(); o.Set {
		o.V = r.Uint32()
	}
}

func (t SetTime) append(w *xdr.Writer) {
	w.Uint32(uint32(t.How))
	if t.How == nfsclient.TimeClient {
		t.T.append(w)
	}
}

func (t *SetTime) parse(r *xdr.Reader) {
	v := r.Uint32()
	if v > uint32(nfsclient.TimeClient) {
		r.Fail("time_how %d", v)
		return
	}
	if t.How = nfsclient.TimeSet(v); t.How == nfsclient.TimeClient {
		t.T.parse(r)
	}
}

func (s *SetAttr) append(w *xdr.Writer) {
	s.Mode.append(w)
	s.UID.append(w)
	s.GID.append(w)
	w.Bool(s.Size.Set)
	if s.Size.Set {
		w.Uint64(s.Size.V)
	}
	s.Atime.append(w)
	s.Mtime.append(w)
}

func (s *SetAttr) parse(r *xdr.Reader) {
	s.Mode.parse(r)
	s.UID.parse(r)
	s.GID.parse(r)
	if s.Size.Set = r.Bool(); s.Size.Set {
		s.Size.V = r.Uint64()
	}
	s.Atime.parse(r)
	s.Mtime.parse(r)
}
