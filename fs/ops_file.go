package fs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// openMode is what open(2)'s flags ask for.
func openMode(flags uint32) cache.OpenMode {
	access := flags & syscall.O_ACCMODE
	const execFlag = 0x20 // __FMODE_EXEC: the kernel opens a program to run it
	return cache.OpenMode{
		Read:     access == syscall.O_RDONLY || access == syscall.O_RDWR,
		Write:    access == syscall.O_WRONLY || access == syscall.O_RDWR,
		Truncate: flags&syscall.O_TRUNC != 0,
		Sync:     flags&(syscall.O_SYNC|syscall.O_DSYNC) != 0,
		Direct:   flags&syscall.O_DIRECT != 0,
		Execute:  flags&execFlag != 0,
	}
}

// openFlags is what the kernel may do with an open file. locked says that the file
// was locked before.
func openFlags(m cache.OpenMode, keep, locked bool) uint32 {
	var flags uint32
	if keep {
		flags |= fuse.FOPEN_KEEP_CACHE
	}
	if !m.Write && !locked {
		// Nothing can have been written through it, and probably nobody locks it, so that
		// Flush would have nothing to do. Locks that are taken through it all the same
		// are given up by Release.
		flags |= fuse.FOPEN_NOFLUSH
	}
	if m.Direct {
		flags |= fuse.FOPEN_DIRECT_IO | fuse.FOPEN_PARALLEL_DIRECT_WRITES
	}
	return flags
}

// Open opens an existing file.
func (f *FS) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	i, st := f.nodes.get(in.NodeId)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	mode := openMode(in.Flags)
	file, keep, err := f.cache.Open(ctx, f.cred(&in.InHeader, i), i, mode)
	if err != nil {
		return errno(err)
	}
	if f.reopens.refuse(in.Pid, in.NodeId, mode.Truncate || i.Sized()) {
		file.Release()
		return fuse.Status(syscall.ESTALE)
	}
	out.Fh = f.files.add(file)
	out.OpenFlags = openFlags(mode, keep, f.cache.LockedBefore(i))
	return fuse.OK
}

// Create makes a file and opens it.
func (f *FS) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	dir, st := f.nodes.get(in.NodeId)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	cr, mode := f.cred(&in.InHeader, dir), openMode(in.Flags)
	s := permissions(f.newMode(ctx, cr, dir, in.Mode, in.Umask))
	if mode.Truncate {
		s.Size = new(uint64)
	}
	e, file, err := f.cache.Create(ctx, cr, dir, name, s, in.Flags&syscall.O_EXCL != 0, mode)
	if err != nil {
		return errno(err)
	}
	f.setEntry(ctx, e, &out.EntryOut)
	out.Fh = f.files.add(file)
	out.OpenFlags = openFlags(mode, false, false)
	return fuse.OK
}

// Read reads from an open file: into buf, or as a buffer of the cache's, which
// goes back when the kernel has the data.
func (f *FS) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	file, st := f.files.get(in.Fh)
	if !st.Ok() {
		return nil, st
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	buf = buf[:min(len(buf), int(in.Size))]
	n, lent, err := file.ReadLent(ctx, buf, int64(in.Offset))
	if err != nil {
		return nil, errno(err)
	}
	f.use.add(in.Pid, in.NodeId, uint64(n), 0, 0)
	if lent.Bytes() == nil {
		return fuse.ReadResultData(buf[:n]), fuse.OK
	}
	return newLentResult(lent), fuse.OK
}

// Write takes data for an open file.
func (f *FS) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	file, st := f.files.get(in.Fh)
	if !st.Ok() {
		return 0, st
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	ctx.write = true
	write := file.Write
	mapped := in.WriteFlags&fuse.WRITE_CACHE != 0 // pages stored to by a mapping; in.Flags is not set
	switch {
	case mapped:
		write = file.WriteBack
	case in.Flags&syscall.O_APPEND != 0:
		write = file.Append
	}
	n, err := write(ctx, data, int64(in.Offset))
	if err != nil {
		return 0, errno(err)
	}
	f.use.add(in.Pid, in.NodeId, 0, uint64(n), 0)
	if file.Direct() && !mapped {
		f.invalidateWritten(file.Inode(), int64(in.Offset), n)
	}
	return uint32(n), fuse.OK
}

// Flush is close(2) of one descriptor: it makes everything written durable, returns
// write errors, and gives up the POSIX locks of the file that the closing process
// has.
func (f *FS) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	file, st := f.files.get(in.Fh)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	err := file.Flush(ctx)
	// A failed unlock is logged; close(2) tells of written data only.
	_ = file.Unlock(ctx, nfsclient.LockOwner(in.LockOwner))
	return errno(err)
}

// Fsync makes everything written durable.
func (f *FS) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	file, st := f.files.get(in.Fh)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	return errno(file.Fsync(ctx))
}

// Release is the last close of an open file.
func (f *FS) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	f.requests.add(in.Opcode)
	if file, ok := f.files.remove(in.Fh); ok {
		file.ReleaseLocks()
		file.Release()
	}
}
