// Package fs is the FUSE adapter: it replies to the kernel's requests with what
// cache returns.
//
// It owns the mount, which it makes itself (mount_linux.go) so that it can send the
// kernel notifications that go-fuse has no call for (notify.go), the numbers of
// nodes and open files, and the mapping of errors to errno (errno.go, one
// function), of callers to credentials (cred.go), and of interrupts to contexts
// (interrupt.go). Access control lists are the only extended attributes (xattr.go). It refuses protocol knowledge and keeps no attribute, name or
// byte.
//
// Invariants: the kernel's lookup count of a node equals the references that
// fs holds on its cache.Inode; a node number is never used for two inodes in
// the life of a mount, and one that the kernel has forgotten is found again by its number, within
// bounds (forgotten.go). No file is opened before the
// kernel has learned its size, if it has dropped that (reopen.go). The kernel is made
// to revalidate names, never to drop them: a name may be a working directory or a
// mount point. No failed lookup unmounts what is mounted below (mountpaths.go). A
// request is cancelled only when its process is being killed or the mount is torn
// down, never by another signal, unless the thread cannot be inspected (watch.go). Waiting
// for a lock is the exception: any signal ends it (ops_lock.go). In a mount that several
// users share and whose kernel checks no modes, no user reaches a FIFO, socket or device
// that the server refuses him (special.go). No caller's credential is cached: process numbers are used again, and processes
// drop groups.
//
// Goroutines: go-fuse, or fs/ring with Config.Over, starts one for each request and
// ends them before Wait returns; runWatch polls the blocked ones, runPrune bounds how many inodes the
// kernel knows. Both live from Mount until the mount's context ends. runSignalled runs for each
// request that may wait for a lock, which joins it. runInvalidate
// runs for one direct write each, if many wait for pages (pages.go). Wait joins
// them all.
//
// Locks: nodes.mu, handles.mu, reopens.mu, openStatuses.mu, mountPaths.mu and watch.mu each guard a
// table, are leaves, and are held across no call to cache. Kernel.mu is held shared
// while the kernel is notified; only Wait takes it exclusively, and then closes the
// descriptor that notifications are written to.
package fs
