package fs

import (
	"encoding/binary"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// Messages to the kernel that go-fuse has no call for, as in
// include/uapi/linux/fuse.h: a struct fuse_out_header whose unique is 0 and
// whose error is the kind of message, and what follows it.
const (
	outHeaderLen  = 16
	notifyEntry   = 3 // FUSE_NOTIFY_INVAL_ENTRY
	notifyLenAt   = 0
	notifyErrorAt = 4
)

// appendNotice appends a message of the given kind, the body of which fill
// appends.
func appendNotice(b []byte, kind uint32, fill func([]byte) []byte) []byte {
	from := len(b)
	b = fill(append(b, make([]byte, outHeaderLen)...))
	binary.NativeEndian.PutUint32(b[from+notifyLenAt:], uint32(len(b)-from))
	binary.NativeEndian.PutUint32(b[from+notifyErrorAt:], kind)
	return b
}

// appendExpireEntry appends the message that ends the validity of a name, and
// does no more (FUSE_EXPIRE_ONLY, since Linux 6.2). Without that flag the kernel
// drops the name and all below it at once: working directories there lose their
// path, and what is mounted there is unmounted. With it, the next path walk
// revalidates the name, and the kernel drops it if it leads elsewhere.
func appendExpireEntry(b []byte, parent uint64, name string) []byte {
	return appendNotice(b, notifyEntry, func(b []byte) []byte {
		b = binary.NativeEndian.AppendUint64(b, parent)
		b = binary.NativeEndian.AppendUint32(b, uint32(len(name)))
		b = binary.NativeEndian.AppendUint32(b, fuse.EXPIRE_ONLY)
		b = append(b, name...)
		return append(b, 0)
	})
}
