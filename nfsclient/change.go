package nfsclient

import "time"

// ChangeID identifies a state of a file or directory: attributes with the same
// ChangeID describe the same content. Who uses a Client compares ChangeIDs and
// nothing else to learn of changes. A Client makes them of what its protocol
// has: NFSv3 of size, mtime and ctime, NFSv4 of the change attribute.
type ChangeID struct {
	order int64
	data  [2]uint64
}

// ChangeByTimes is the ChangeID of a protocol without a change attribute.
func ChangeByTimes(size uint64, mtime, ctime time.Time) ChangeID {
	return ChangeID{order: ctime.UnixNano(), data: [2]uint64{size, uint64(mtime.UnixNano())}}
}

// ChangeByAttribute is the ChangeID of a protocol with a change attribute. Later states have a
// larger one with all servers known; RFC 8881 section 5.8.1.4 promises only that it differs.
// It does not tell data from other attributes.
func ChangeByAttribute(change uint64) ChangeID {
	return ChangeID{order: int64(change), data: [2]uint64{change}}
}

// After reports whether c is certainly a later state of the same file than o.
func (c ChangeID) After(o ChangeID) bool { return c.order > o.order }

// MayFollow reports whether c may be what writing has made of o. Of two states
// that the server's clock does not tell apart, the one with the larger size is
// the later.
func (c ChangeID) MayFollow(o ChangeID) bool {
	return c.order > o.order || c.order == o.order && c.data[0] >= o.data[0]
}

// SameData reports whether nobody has changed data or entries between c and o,
// whatever became of attributes such as the link count.
func (c ChangeID) SameData(o ChangeID) bool { return c.data == o.data }
