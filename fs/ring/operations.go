package ring

import (
	"bytes"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// operation is how requests of one opcode are served.
type operation struct {
	name string
	// in is the size of the request's structure, with the header; out that of the
	// answer's, 0 if it has none.
	in, out int
	do      func(*request) fuse.Status
}

// none is the structure of an answer without one.
type none = struct{}

// bare is a request that has nothing between header and names.
type bare = fuse.InHeader

// renameIn is struct fuse_rename_in, of RENAME; that of RENAME2 is
// fuse.RenameIn.
type renameIn struct {
	fuse.InHeader
	Newdir uint64
}

// setXAttrIn is struct fuse_setxattr_in without SETXATTR_EXT.
type setXAttrIn struct {
	fuse.InHeader
	Size, Flags uint32
}

// op makes an operation of structures I and O.
func op[I, O any](name string, do func(*request, *I, *O) fuse.Status) operation {
	var in I
	var out O
	if unsafe.Sizeof(in) > inHeaderLen+headerOpLen || unsafe.Sizeof(out) > maxOut {
		panic("ring: the structures of " + name + " are too large")
	}
	return operation{name: name, in: int(unsafe.Sizeof(in)), out: int(unsafe.Sizeof(out)), do: func(r *request) fuse.Status {
		return do(r, (*I)(unsafe.Pointer(&r.in)), (*O)(unsafe.Pointer(&r.out)))
	}}
}

// Opcodes of include/uapi/linux/fuse.h.
const (
	opForget      = 2
	opInit        = 26
	opSetLkw      = 33
	opInterrupt   = 36
	opBatchForget = 42
)

// operations has every operation that a file system can serve. What the kernel
// sends besides is answered ENOSYS, and it does not ask again.
var operations = [...]operation{
	1: op("LOOKUP", func(r *request, in *bare, out *fuse.EntryOut) fuse.Status {
		return r.fs.Lookup(r.cancel, in, r.name(), out)
	}),
	3: op("GETATTR", func(r *request, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
		return r.fs.GetAttr(r.cancel, in, out)
	}),
	4: op("SETATTR", func(r *request, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
		return r.fs.SetAttr(r.cancel, in, out)
	}),
	5: op("READLINK", func(r *request, in *bare, _ *none) fuse.Status {
		target, st := r.fs.Readlink(r.cancel, in)
		if st.Ok() {
			r.n = copy(r.payload, target)
		}
		return st
	}),
	6: op("SYMLINK", func(r *request, in *bare, out *fuse.EntryOut) fuse.Status {
		name, target, ok := r.names()
		if !ok {
			return fuse.EIO
		}
		return r.fs.Symlink(r.cancel, in, target, name, out)
	}),
	8: op("MKNOD", func(r *request, in *fuse.MknodIn, out *fuse.EntryOut) fuse.Status {
		return r.fs.Mknod(r.cancel, in, r.name(), out)
	}),
	9: op("MKDIR", func(r *request, in *fuse.MkdirIn, out *fuse.EntryOut) fuse.Status {
		return r.fs.Mkdir(r.cancel, in, r.name(), out)
	}),
	10: op("UNLINK", func(r *request, in *bare, _ *none) fuse.Status {
		return r.fs.Unlink(r.cancel, in, r.name())
	}),
	11: op("RMDIR", func(r *request, in *bare, _ *none) fuse.Status {
		return r.fs.Rmdir(r.cancel, in, r.name())
	}),
	12: op("RENAME", func(r *request, in *renameIn, _ *none) fuse.Status {
		return r.rename(&fuse.RenameIn{InHeader: in.InHeader, Newdir: in.Newdir})
	}),
	13: op("LINK", func(r *request, in *fuse.LinkIn, out *fuse.EntryOut) fuse.Status {
		return r.fs.Link(r.cancel, in, r.name(), out)
	}),
	14: op("OPEN", func(r *request, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
		return r.fs.Open(r.cancel, in, out)
	}),
	15: op("READ", func(r *request, in *fuse.ReadIn, _ *none) fuse.Status {
		buf, ok := r.room(in.Size)
		if !ok {
			return fuse.EINVAL
		}
		res, st := r.fs.Read(r.cancel, in, buf)
		if !st.Ok() || res == nil {
			return st
		}
		return r.take(res, buf)
	}),
	16: op("WRITE", func(r *request, in *fuse.WriteIn, out *fuse.WriteOut) (st fuse.Status) {
		if uint64(in.Size) != uint64(len(r.data)) {
			return fuse.EIO
		}
		out.Size, st = r.fs.Write(r.cancel, in, r.data)
		return st
	}),
	17: op("STATFS", func(r *request, in *bare, out *fuse.StatfsOut) fuse.Status {
		return r.fs.StatFs(r.cancel, in, out)
	}),
	18: op("RELEASE", func(r *request, in *fuse.ReleaseIn, _ *none) fuse.Status {
		r.fs.Release(r.cancel, in)
		return fuse.OK
	}),
	20: op("FSYNC", func(r *request, in *fuse.FsyncIn, _ *none) fuse.Status {
		return r.fs.Fsync(r.cancel, in)
	}),
	21: op("SETXATTR", func(r *request, in *setXAttrIn, _ *none) fuse.Status {
		name, value, ok := bytes.Cut(r.data, zero)
		if !ok || uint64(len(value)) != uint64(in.Size) {
			return fuse.EIO
		}
		return r.fs.SetXAttr(r.cancel, &fuse.SetXAttrIn{InHeader: in.InHeader, Size: in.Size, Flags: in.Flags}, string(name), value)
	}),
	22: op("GETXATTR", func(r *request, in *fuse.GetXAttrIn, _ *none) fuse.Status {
		name := r.name()
		return r.xattr(in, func(dest []byte) (uint32, fuse.Status) { return r.fs.GetXAttr(r.cancel, &in.InHeader, name, dest) })
	}),
	23: op("LISTXATTR", func(r *request, in *fuse.GetXAttrIn, _ *none) fuse.Status {
		return r.xattr(in, func(dest []byte) (uint32, fuse.Status) { return r.fs.ListXAttr(r.cancel, &in.InHeader, dest) })
	}),
	24: op("REMOVEXATTR", func(r *request, in *bare, _ *none) fuse.Status {
		return r.fs.RemoveXAttr(r.cancel, in, r.name())
	}),
	25: op("FLUSH", func(r *request, in *fuse.FlushIn, _ *none) fuse.Status {
		return r.fs.Flush(r.cancel, in)
	}),
	27: op("OPENDIR", func(r *request, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
		return r.fs.OpenDir(r.cancel, in, out)
	}),
	28: op("READDIR", func(r *request, in *fuse.ReadIn, _ *none) fuse.Status {
		return r.list(in, r.fs.ReadDir)
	}),
	29: op("RELEASEDIR", func(r *request, in *fuse.ReleaseIn, _ *none) fuse.Status {
		r.fs.ReleaseDir(in)
		return fuse.OK
	}),
	30: op("FSYNCDIR", func(r *request, in *fuse.FsyncIn, _ *none) fuse.Status {
		return r.fs.FsyncDir(r.cancel, in)
	}),
	31: op("GETLK", func(r *request, in *fuse.LkIn, out *fuse.LkOut) fuse.Status {
		return r.fs.GetLk(r.cancel, in, out)
	}),
	32: op("SETLK", func(r *request, in *fuse.LkIn, _ *none) fuse.Status {
		return r.fs.SetLk(r.cancel, in)
	}),
	opSetLkw: op("SETLKW", func(r *request, in *fuse.LkIn, _ *none) fuse.Status {
		if r.crowded {
			return fuse.Status(syscall.ENOLCK)
		}
		return r.fs.SetLkw(r.cancel, in)
	}),
	34: op("ACCESS", func(r *request, in *fuse.AccessIn, _ *none) fuse.Status {
		return r.fs.Access(r.cancel, in)
	}),
	35: op("CREATE", func(r *request, in *fuse.CreateIn, out *fuse.CreateOut) fuse.Status {
		return r.fs.Create(r.cancel, in, r.name(), out)
	}),
	38: op("DESTROY", func(*request, *bare, *none) fuse.Status { return fuse.OK }),
	43: op("FALLOCATE", func(r *request, in *fuse.FallocateIn, _ *none) fuse.Status {
		return r.fs.Fallocate(r.cancel, in)
	}),
	44: op("READDIRPLUS", func(r *request, in *fuse.ReadIn, _ *none) fuse.Status {
		return r.list(in, r.fs.ReadDirPlus)
	}),
	45: op("RENAME2", func(r *request, in *fuse.RenameIn, _ *none) fuse.Status { return r.rename(in) }),
	46: op("LSEEK", func(r *request, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
		return r.fs.Lseek(r.cancel, in, out)
	}),
	47: op("COPY_FILE_RANGE", func(r *request, in *fuse.CopyFileRangeIn, out *fuse.WriteOut) (st fuse.Status) {
		out.Size, st = r.fs.CopyFileRange(r.cancel, in)
		return st
	}),
}

// find is the operation of an opcode, or nil.
func find(opcode uint32) *operation {
	if opcode >= uint32(len(operations)) || operations[opcode].do == nil {
		return nil
	}
	return &operations[opcode]
}

func (r *request) rename(in *fuse.RenameIn) fuse.Status {
	from, to, ok := r.names()
	if !ok {
		return fuse.EIO
	}
	return r.fs.Rename(r.cancel, in, from, to)
}

// xattr answers a request for a value, or for its length if it has no room for one.
func (r *request) xattr(in *fuse.GetXAttrIn, get func(dest []byte) (uint32, fuse.Status)) fuse.Status {
	dest, ok := r.room(in.Size)
	if !ok {
		return fuse.EINVAL
	}
	n, st := get(dest)
	if in.Size == 0 && (st.Ok() || st == fuse.ERANGE) {
		size := fuse.GetXAttrOut{Size: n}
		r.n = copy(r.payload, unsafe.Slice((*byte)(unsafe.Pointer(&size)), unsafe.Sizeof(size)))
		return fuse.OK
	}
	r.n = int(n)
	return st
}

func (r *request) list(in *fuse.ReadIn, read func(<-chan struct{}, *fuse.ReadIn, *fuse.DirEntryList) fuse.Status) fuse.Status {
	buf, ok := r.room(in.Size)
	if !ok {
		return fuse.EINVAL
	}
	entries := fuse.NewDirEntryList(buf, in.Offset)
	st := read(r.cancel, in, entries)
	r.n = len(entries.Bytes())
	return st
}

// The name and the node by which a kernel that asks once learns that files here
// cannot be polled, as go-fuse has them.
const (
	pollName = ".go-fuse-epoll-hack"
	pollNode = ^uint64(0)
)

// servePollName answers requests for pollName, which no file system sees. ok is
// false for others.
func (r *request) servePollName() (n int, st fuse.Status, ok bool) {
	h := r.header()
	const lookup, getattr, open, flush, release, poll = 1, 3, 14, 25, 18, 40
	if h.NodeId != pollNode && (h.Opcode != lookup || h.NodeId != fuse.FUSE_ROOT_ID || string(r.data) != pollName+"\x00") {
		return 0, 0, false
	}
	attr := fuse.Attr{Ino: pollNode, Mode: syscall.S_IFREG | 0o644, Nlink: 1}
	switch h.Opcode {
	case lookup:
		(*fuse.EntryOut)(unsafe.Pointer(&r.out)).NodeId = pollNode
		(*fuse.EntryOut)(unsafe.Pointer(&r.out)).Attr = attr
	case getattr:
		(*fuse.AttrOut)(unsafe.Pointer(&r.out)).Attr = attr
	case open:
		(*fuse.OpenOut)(unsafe.Pointer(&r.out)).Fh = pollNode
	case flush, release:
	case poll:
		return 0, fuse.ENOSYS, true
	default:
		return 0, fuse.ERANGE, true // ENOSYS would be for all files
	}
	return copy(r.payload, unsafe.Slice((*byte)(unsafe.Pointer(&r.out)), find(h.Opcode).out)), fuse.OK, true
}
