package wire

import (
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Bulk is a data item that may travel beside the stream (RFC 8267 section 6.1): the
// data of READ and WRITE, the target of READLINK and of CREATE of a symbolic link.
type Bulk = xdr.Bulk

// Marked is a Bulk that stands in payload i.
func Marked(i int) Bulk { return xdr.Marked(i) }

// Inline is a Bulk that stands in b, which it borrows.
func Inline(b []byte) Bulk { return xdr.Inline(b) }

// Stateid is stateid4.
type Stateid struct {
	Seqid uint32
	Other [12]byte
}

// The special stateids (RFC 8881 section 8.2.3).
var (
	AnonymousStateid = Stateid{}
	BypassStateid    = Stateid{Seqid: 1<<32 - 1, Other: [12]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}}
	CurrentStateid   = Stateid{Seqid: 1}
	InvalidStateid   = Stateid{Seqid: 1<<32 - 1}
)

// Latest is the stateid with seqid 0, which means its newest.
func (s Stateid) Latest() Stateid { return Stateid{Other: s.Other} }

func (s *Stateid) append(w *xdr.Writer) {
	w.Uint32(s.Seqid)
	w.Fixed(s.Other[:])
}

func (s *Stateid) parse(r *xdr.Reader) {
	s.Seqid = r.Uint32()
	copy(s.Other[:], r.Fixed(len(s.Other)))
}

// SessionID is sessionid4.
type SessionID [16]byte

func (s *SessionID) append(w *xdr.Writer) { w.Fixed(s[:]) }
func (s *SessionID) parse(r *xdr.Reader)  { copy(s[:], r.Fixed(len(s))) }

// ClientID is clientid4.
type ClientID uint64

// ChangeInfo is change_info4: the change attribute of a directory before and after.
type ChangeInfo struct {
	Atomic        bool
	Before, After uint64
}

func (c *ChangeInfo) append(w *xdr.Writer) {
	w.Bool(c.Atomic)
	w.Uint64(c.Before)
	w.Uint64(c.After)
}

func (c *ChangeInfo) parse(r *xdr.Reader) {
	c.Atomic, c.Before, c.After = r.Bool(), r.Uint64(), r.Uint64()
}

// Time is nfstime4: seconds since 1970 and nanoseconds.
type Time struct {
	Sec  int64
	Nsec uint32
}

// TimeOf is t as a Time.
func TimeOf(t time.Time) Time { return Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())} }

// Time is t as a time.Time.
func (t Time) Time() time.Time { return time.Unix(t.Sec, int64(t.Nsec)) }

func (t Time) append(w *xdr.Writer) {
	w.Uint64(uint64(t.Sec))
	w.Uint32(t.Nsec)
}

func (t *Time) parse(r *xdr.Reader) { t.Sec, t.Nsec = int64(r.Uint64()), r.Uint32() }

func appendHandle(w *xdr.Writer, h nfsclient.Handle) { w.String(string(h)) }

// parseHandle and parseString leave what is there, if what came is equal, so that a
// struct that is used again allocates nothing.
func parseHandle(r *xdr.Reader, h *nfsclient.Handle) {
	if b := r.Opaque(MaxHandle); string(b) != string(*h) {
		*h = nfsclient.Handle(b)
	}
}

func parseString(r *xdr.Reader, s *string, limit int) {
	if b := r.Opaque(limit); string(b) != *s {
		*s = string(b)
	}
}

// parseBytes copies into the memory of b.
func parseBytes(r *xdr.Reader, b *[]byte, limit int) { *b = append((*b)[:0], r.Opaque(limit)...) }

func appendVerf(w *xdr.Writer, v nfsclient.Verifier) { w.Fixed(v[:]) }

func parseVerf(r *xdr.Reader) (v nfsclient.Verifier) {
	copy(v[:], r.Fixed(len(v)))
	return v
}

// parseEnum reads an enumeration whose values are those from low to high.
func parseEnum(r *xdr.Reader, what string, low, high uint32) uint32 {
	v := r.Uint32()
	if r.Err() == nil && (v < low || v > high) {
		r.Fail("%s %d", what, v)
	}
	return v
}

// Owner is open_owner4 and lock_owner4.
type Owner struct {
	ClientID ClientID
	Owner    string
}

func (o *Owner) append(w *xdr.Writer) {
	w.Uint64(uint64(o.ClientID))
	w.String(o.Owner)
}

func (o *Owner) parse(r *xdr.Reader) {
	o.ClientID = ClientID(r.Uint64())
	parseString(r, &o.Owner, MaxOpaque)
}

// ACE is nfsace4.
type ACE struct {
	Type, Flag, Mask uint32
	Who              string
}

func (a *ACE) append(w *xdr.Writer) {
	w.Uint32(a.Type)
	w.Uint32(a.Flag)
	w.Uint32(a.Mask)
	w.String(a.Who)
}

func (a *ACE) parse(r *xdr.Reader) {
	a.Type, a.Flag, a.Mask = r.Uint32(), r.Uint32(), r.Uint32()
	parseString(r, &a.Who, MaxOwner)
}
