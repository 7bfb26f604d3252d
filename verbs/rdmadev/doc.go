// Package rdmadev reads what the kernel shows of the RDMA devices of this
// machine: names, ports, GIDs, the network devices they stand on, the
// character devices through which user space reaches them; and which network
// device, and so which RDMA device, a route to a server leads to.
//
// It owns the knowledge of sysfs' layout. It does not judge: what a port that is
// down means for a mount is its callers' decision. It opens a device only for a
// moment, to see whether this user may, and needs neither rdma-core nor a module:
// on a machine without them it finds nothing, and says why (Tree.Absence).
//
// The text in sysfs is the drivers'. A file that is absent, empty, or makes no
// sense leaves its field empty; a device that goes away meanwhile yields what
// had been read of it. Nothing here panics, and no file is read beyond a page.
//
// A Tree names the directories, so that tests read trees of their own. The
// mapping to character devices, and of IP over InfiniBand's network devices, is
// rdmamap's, which knows only the real directories: Mapper stands between.
//
// The package starts no goroutine and has no lock.
package rdmadev
