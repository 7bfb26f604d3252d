package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const tmpfsMagic = unix.TMPFS_MAGIC

// storeRoom is what the data of a run needs at most.
const storeRoom = 1 << 30

// storeDir is where the data that is served is to lie: in memory if there is a tmpfs
// with room, as no disk is to be measured.
func storeDir(dir string) string {
	const shm = "/dev/shm"
	var st unix.Statfs_t
	if dir == "" && unix.Statfs(shm, &st) == nil && st.Type == tmpfsMagic && st.Bavail*uint64(st.Bsize) >= storeRoom {
		return shm
	}
	return dir
}

// fileSystem names the type of a directory's file system.
func fileSystem(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "unknown"
	}
	switch st.Type {
	case tmpfsMagic:
		return "tmpfs"
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs"
	}
	return fmt.Sprintf("file system %#x", st.Type)
}
