// Package ring serves a FUSE mount by io_uring: requests come as completions, and
// the answer's submission fetches the next request, so that each needs one system
// call and no queue that CPUs share.
//
// It owns the io_urings, the memory in which requests come, and the decoding of
// requests for a go-fuse RawFileSystem, which need not know. It refuses what only
// go-fuse's own server has: extended attributes, ioctl, passthrough.
//
// INIT is read and answered on /dev/fuse (init.go), with the flag that rings are
// to be used: from then on the kernel holds requests back until each of its queues,
// one for each possible CPU, has an entry. An entry (entry.go) is memory for one
// request with its answer, an io_uring of its own, and a goroutine that waits in
// io_uring_enter, serves, and enters again with the answer. The kernel copies a
// request in the context of the thread that submitted the entry last, which is
// the very thread that waits: nobody else is woken. A handler that waits for the
// NFS server holds its entry, so a queue of which few entries are idle gets one
// more, up to LastEntries; entries stay until the mount ends, as the kernel has no
// way to give one back. An entry whose request waits for a lock is not counted: what
// ends the wait must find another. FORGET and INTERRUPT still come by /dev/fuse (device.go),
// and notifications go there.
//
// Invariants: each queue has an entry. Between the completion that brings a
// request and the submission of its answer the entry's memory is the server's,
// otherwise the kernel's. A request is copied out of the shared header before it is
// parsed, and every size in it is checked. An interrupt is never lost: either the
// request is found, or a note of it is, when the request begins.
//
// Goroutines: runEntry, one for each entry, runDevice, and runRequest for what the
// kernel had queued on /dev/fuse before the rings were ready. All end with the mount,
// and Wait joins them.
//
// Locks: Server.mu guards the lists of requests and entries, request.mu the
// number of the request being served and its cancellation, early.mu the notes of
// interrupts. Server.mu is taken before the other two, which are leaves.
package ring
