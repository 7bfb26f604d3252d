// Command loopc mounts a local directory on another: the ceiling of what a file system
// by FUSE in Go can do. All data is copied through this process, as that of a network
// has to be: the kernel passes nothing through to the files, and nothing is spliced.
//
//	loopc MOUNTPOINT DIRECTORY
//
// It prints a line when the mount is usable, and ends when it is unmounted.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("loopc: ")
	if len(os.Args) != 3 {
		log.Fatal("usage: loopc MOUNTPOINT DIRECTORY")
	}
	syscall.Umask(0) // the kernel has applied that of the caller
	loop, err := fs.NewLoopbackRoot(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	root := &node{loop.(*fs.LoopbackNode)}
	root.RootData.RootNode = root
	second := time.Second // as libfuse has it
	server, err := fs.Mount(os.Args[1], root, &fs.Options{
		AttrTimeout: &second, EntryTimeout: &second, NullPermissions: true,
		MountOptions: fuse.MountOptions{
			FsName: os.Args[2], Name: "loopc",
			DisableSplice: true,
			MaxWrite:      1 << 20, // as rdmafs
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("mounted")
	server.Wait()
}

// node is one of go-fuse's, whose files are ours. Direct I/O ends here, as at a server:
// the store is memory anyway.
type node struct{ *fs.LoopbackNode }

var (
	_ fs.NodeWrapChilder = (*node)(nil)
	_ fs.NodeOpener      = (*node)(nil)
	_ fs.NodeCreater     = (*node)(nil)
)

func (n *node) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{child.(*fs.LoopbackNode)}
}

func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	f, out, errno := n.LoopbackNode.Open(ctx, flags&^syscall.O_DIRECT)
	return copying(f), out, errno
}

func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	i, f, of, errno := n.LoopbackNode.Create(ctx, name, flags&^syscall.O_DIRECT, mode, out)
	return i, copying(f), of, errno
}

// file copies data, and hides the descriptor that the kernel could use past us.
type file struct{ *fs.LoopbackFile }

func copying(f fs.FileHandle) fs.FileHandle {
	if l, ok := f.(*fs.LoopbackFile); ok {
		return &file{l}
	}
	return f
}

// PassthroughFd has none to pass.
func (*file) PassthroughFd() (int, bool) { return -1, false }

func (f *file) Read(_ context.Context, buf []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	fd, _ := f.LoopbackFile.PassthroughFd()
	n, err := syscall.Pread(fd, buf, off)
	if err != nil {
		return nil, fs.ToErrno(err)
	}
	return fuse.ReadResultData(buf[:n]), 0
}
