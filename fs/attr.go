package fs

import (
	"math"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/nfsclient"
)

var typeMode = [...]uint32{
	nfsclient.Regular:      syscall.S_IFREG,
	nfsclient.Directory:    syscall.S_IFDIR,
	nfsclient.BlockDevice:  syscall.S_IFBLK,
	nfsclient.CharDevice:   syscall.S_IFCHR,
	nfsclient.SymbolicLink: syscall.S_IFLNK,
	nfsclient.Socket:       syscall.S_IFSOCK,
	nfsclient.FIFO:         syscall.S_IFIFO,
}

func modeOfType(t nfsclient.FileType) uint32 {
	if int(t) < len(typeMode) {
		return typeMode[t]
	}
	return 0
}

func typeOfMode(mode uint32) (nfsclient.FileType, bool) {
	for t, m := range typeMode {
		if m != 0 && m == mode&syscall.S_IFMT {
			return nfsclient.FileType(t), true
		}
	}
	return 0, false
}

// setAttr fills the attributes of a reply. A kernel that is given a size above
// MaxInt64 marks the inode bad for as long as it holds it.
func setAttr(out *fuse.Attr, ino uint64, a *nfsclient.Attr) {
	*out = fuse.Attr{
		Ino:     ino,
		Size:    min(a.Size, math.MaxInt64),
		Blocks:  (a.Used + 511) / 512,
		Mode:    modeOfType(a.Type) | a.Mode,
		Nlink:   a.Nlink,
		Owner:   fuse.Owner{Uid: a.UID, Gid: a.GID},
		Rdev:    encodeDevice(a.Rdev),
		Blksize: 1 << 20, // a hint to applications: copy in pieces that fill a call
	}
	out.SetTimes(&a.Atime, &a.Mtime, &a.Ctime)
}

// encodeDevice packs a device number as in FUSE messages, which is the kernel's
// new_encode_dev: 12 bits of major, 20 of minor.
func encodeDevice(d nfsclient.Device) uint32 {
	return d.Minor&0xff | (d.Major&0xfff)<<8 | (d.Minor&^0xff)<<12
}

func decodeDevice(v uint32) nfsclient.Device {
	return nfsclient.Device{Major: v >> 8 & 0xfff, Minor: v&0xff | v>>12&0xfff00}
}

// setAttrOf decodes a SETATTR request.
func setAttrOf(in *fuse.SetAttrIn) nfsclient.SetAttr {
	var s nfsclient.SetAttr
	if v, ok := in.GetMode(); ok {
		s.Mode = &v
	}
	if v, ok := in.GetUID(); ok {
		s.UID = &v
	}
	if v, ok := in.GetGID(); ok {
		s.GID = &v
	}
	if v, ok := in.GetSize(); ok {
		s.Size = &v
	}
	s.SetAtime, s.Atime = timeSet(in.Valid, fuse.FATTR_ATIME, fuse.FATTR_ATIME_NOW, in.Atime, in.Atimensec)
	s.SetMtime, s.Mtime = timeSet(in.Valid, fuse.FATTR_MTIME, fuse.FATTR_MTIME_NOW, in.Mtime, in.Mtimensec)
	return s
}

func timeSet(valid, set, now uint32, sec uint64, nsec uint32) (nfsclient.TimeSet, time.Time) {
	switch {
	case valid&now != 0:
		return nfsclient.TimeServer, time.Time{}
	case valid&set != 0:
		return nfsclient.TimeClient, time.Unix(int64(sec), int64(nsec))
	}
	return nfsclient.TimeKeep, time.Time{}
}

// accessMask is the NFS rights that access(2) with mask needs.
func accessMask(mask uint32, dir bool) nfsclient.AccessMask {
	var m nfsclient.AccessMask
	if mask&fuse.R_OK != 0 {
		m |= nfsclient.AccessRead
	}
	if mask&fuse.W_OK != 0 {
		m |= nfsclient.AccessModify | nfsclient.AccessExtend
		if dir {
			m |= nfsclient.AccessDelete
		}
	}
	if mask&fuse.X_OK != 0 {
		if dir {
			m |= nfsclient.AccessLookup
		} else {
			m |= nfsclient.AccessExecute
		}
	}
	return m
}
