// Package bufpool owns the mount's I/O memory: it lends buffers of 4 KiB to
// 1 MiB, in powers of two, out of arenas that it makes and registers as they
// are needed, up to a limit.
//
// It does not know what buffers are for, and takes no memory back by force: a
// blocked Get can only request, by the pressure function, that buffers be
// released.
//
// Memory is managed in slabs of 1 MiB. A slab holds buffers of one size for as
// long as any of them is lent, and can be used for any size afterwards, so that no
// size keeps memory from the others for good. Arenas stay registered and mapped
// until Close: registration is what costs, and the limit bounds it. Where no device has
// them pinned, the pages of slabs that are free for a while go back to the system. Idle is
// told then.
//
// Waiting is strictly first come, first served, also across sizes: a large
// request is not starved by small ones. TryGet leaves a quarter of the pool to
// Get. A holder of buffers that calls Get must therefore see to it that those
// it holds can be freed without its help.
//
// A buffer is released exactly once; a second release panics.
//
// A TryGet that lacks memory starts runGrow, one at a time, and a timer starts runTrim
// while free slabs hold memory; Close joins both. The package starts no other goroutine. Pool.growing is taken before Pool.mu;
// Register and Unregister are called with growing held (Unregister with both),
// Pressure and Idle with neither.
package bufpool
