package vfs

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// ErrBadHandle: the handle was not made by this tree.
var ErrBadHandle = errors.New("bad file handle")

// The form of a handle: magic, kind, export (4 bytes); then for a kernel
// handle its type (4) and bytes, for an inode handle device, inode and
// generation (8 each); at last the checksum (8).
const (
	handleMagic = 0xd3
	handleHead  = 6
	handleMac   = 8
	kindKernel  = 1
	kindInode   = 2
	// maxHandle is NFS3_FHSIZE.
	maxHandle = 64
	// maxKernel is the longest kernel handle that fits.
	maxKernel = maxHandle - handleHead - 4 - handleMac
)

// inode names a file while it exists, and gen distinguishes it from those that had the
// number before.
type inode struct{ dev, ino, gen uint64 }

func (t *Tree) inodeOf(st *Stat) inode {
	k := inode{dev: uint64(st.Dev_major)<<32 | uint64(st.Dev_minor), ino: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 && t.birth {
		k.gen = uint64(st.Btime.Sec)<<30 + uint64(st.Btime.Nsec)
	}
	return k
}

func (t *Tree) head(b []byte, kind byte) []byte {
	b = append(b, handleMagic, kind)
	return binary.BigEndian.AppendUint32(b, t.cfg.ID)
}

func (t *Tree) seal(b []byte) string {
	return string(binary.BigEndian.AppendUint64(b, t.mac.sum(b)))
}

func (t *Tree) sealKernel(h *rawHandle) (string, error) {
	if h.n > maxKernel {
		return "", unix.EOVERFLOW
	}
	b := t.head(make([]byte, 0, maxHandle), kindKernel)
	b = binary.BigEndian.AppendUint32(b, uint32(h.kind))
	return t.seal(append(b, h.b[:h.n]...)), nil
}

func (t *Tree) sealInode(k inode) string {
	b := t.head(make([]byte, 0, maxHandle), kindInode)
	b = binary.BigEndian.AppendUint64(b, k.dev)
	b = binary.BigEndian.AppendUint64(b, k.ino)
	return t.seal(binary.BigEndian.AppendUint64(b, k.gen))
}

// unseal checks a handle's form and checksum, and returns its kind and body.
func (t *Tree) unseal(h string) (kind byte, body []byte, err error) {
	if len(h) < handleHead+handleMac || len(h) > maxHandle {
		return 0, nil, ErrBadHandle
	}
	b := []byte(h)
	n := len(b) - handleMac
	if b[0] != handleMagic || binary.BigEndian.Uint32(b[2:]) != t.cfg.ID ||
		binary.BigEndian.Uint64(b[n:]) != t.mac.sum(b[:n]) {
		return 0, nil, ErrBadHandle
	}
	return b[1], b[handleHead:n], nil
}

// HandleID is the export that a handle claims to belong to; ok is false when
// it cannot be one of this package's.
func HandleID(h string) (id uint32, ok bool) {
	if len(h) < handleHead+handleMac || len(h) > maxHandle || h[0] != handleMagic {
		return 0, false
	}
	return uint32(h[2])<<24 | uint32(h[3])<<16 | uint32(h[4])<<8 | uint32(h[5]), true
}

// handleOf is the handle of an open file whose attributes are st.
func (t *Tree) handleOf(fd int, st *Stat) (string, error) {
	if !t.kernel {
		return t.sealInode(t.inodeOf(st)), nil
	}
	var h rawHandle
	if _, err := handleAt(fd, &emptyPath[0], &h); err != nil {
		return "", err
	}
	return t.sealKernel(&h)
}

// handleOfName is the handle of a name in an open directory; st is filled only
// for inode handles. A mount point has none: what is mounted there may have the
// handle of a file of the tree.
func (t *Tree) handleOfName(dir int, name string, st *Stat) (string, error) {
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return "", err
	}
	return t.handleOfNameC(dir, p, st)
}

// handleOfNameC is handleOfName of a name that ends in a NUL.
func (t *Tree) handleOfNameC(dir int, name *byte, st *Stat) (string, error) {
	if !t.kernel {
		if err := statAtC(dir, name, st); err != nil {
			return "", err
		}
		if !t.sameMount(st) {
			return "", unix.EACCES
		}
		return t.sealInode(t.inodeOf(st)), nil
	}
	var h rawHandle
	mount, err := handleAt(dir, name, &h)
	if err != nil {
		return "", err
	}
	if uint64(mount) != t.mount {
		return "", unix.EACCES
	}
	return t.sealKernel(&h)
}

// openBody opens, for use as a path, the file that a handle's body names.
func (t *Tree) openBody(kind byte, body []byte) (int, error) {
	switch {
	case kind == kindKernel && t.kernel && len(body) >= 4:
		var h rawHandle
		h.kind = int32(binary.BigEndian.Uint32(body))
		h.n = uint32(copy(h.b[:], body[4:]))
		fd, err := openHandle(t.root.rd(), &h, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		if err != nil && err != unix.EMFILE && err != unix.ENFILE && err != unix.ENOMEM {
			err = unix.ESTALE
		}
		return fd, err
	case kind == kindInode && len(body) == 24:
		return t.find(inode{
			binary.BigEndian.Uint64(body), binary.BigEndian.Uint64(body[8:]), binary.BigEndian.Uint64(body[16:]),
		})
	}
	return -1, unix.ESTALE
}
