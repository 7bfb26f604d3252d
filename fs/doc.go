// Package fs is the FUSE adapter: it answers the kernel's requests with what
// cache says.
//
// It owns the mount, which it makes itself (mount_linux.go) so that it can write
// to the kernel what go-fuse has no call for (notify.go), and reads the mount
// table, the numbers under which the
// kernel knows inodes and open files, the mapping of errors to errno (errno.go,
// one function), of callers to credentials (cred.go), and of interrupts to
// contexts (interrupt.go). It refuses protocol knowledge and keeps no
// attribute, name or byte.
//
// Invariants: the kernel's lookup count of a node equals the references that
// fs holds on its cache.Inode; a node number is never used for two inodes in
// the life of a mount. No file is opened of which the kernel has not learned the
// size since it last dropped that (reopen.go). A name that the kernel holds is
// made to be looked up again, never dropped: it may be somebody's working
// directory, or a mount point. No failed lookup unmounts what is mounted below
// (beneath.go). An operation is cancelled only when its process is being killed or
// the mount is torn down, never by a mere signal, unless which it is cannot be seen
// (watch.go). No caller's credential is remembered: process numbers are used
// again, and groups are dropped.
//
// Goroutines: go-fuse starts one for each request and ends them before Wait
// returns; runWatch looks after the requests that really wait, runPrune keeps
// what the kernel knows within a bound. Both live from Mount until the mount's
// context ends. runDrop runs for a direct write each where many wait for pages
// (pages.go). Wait joins them.
//
// Locks: nodes.mu, handles.mu, reopens.mu, beneath.mu and watch.mu guard their tables, are leaves,
// and are held across no call to cache. Kernel.mu is held, shared, while the kernel is
// notified; only Wait takes it alone, and then closes the descriptor that
// notifications are written to.
package fs
