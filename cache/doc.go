// Package cache decides which attributes, names, rights and bytes the kernel's file
// requests get from memory, and when written bytes reach stable storage.
//
// It owns the inodes of a mount, the read-ahead of open files, and every byte that
// was written here until the server has it on stable storage. The kernel's page
// cache is the long-term cache; what was read ahead is dropped once delivered. It
// refuses to know FUSE, wire formats and connections, and it never keeps a byte
// twice.
//
// It has three rooms: coherence of names and attributes, reading, and write-back.
// The decisions of each are machines without locks, goroutines or clock, in packages
// coherence, readahead and writeback; this package gives them locks and goroutines,
// and makes the calls.
//
// # What is promised
//
// A byte that Fsync or Flush has acknowledged is on the server's stable
// storage, whatever crashed in between. Unstable writes are kept until a COMMIT
// answers with the verifier of their WRITE (RFC 1813 section 4.8); otherwise
// they are sent again. A single buffer is written FILE_SYNC instead. Data that
// cannot be written is dropped only after the error was recorded: Write and
// Flush of each opening return it until Fsync has. What no program was told of
// is told by the next opening's Fsync, or else by the log, Sync and Close.
//
// COMMITs carry the credentials of any user whose data they are for; where one is
// refused, the next one's. A server whose verifier changes with every COMMIT is
// asked more and more slowly. One that wants the WRITEs of a file later gets one
// at a time, and none of the background writers is held for it meanwhile; no file
// has more than three quarters of them.
//
// Reads see what was written here before they began, wherever it stands. No
// two WRITEs under way overlap, so that their order on the server is the order
// in which they were made. A truncation waits until earlier writes were sent,
// and holds off later ones and COMMITs until it is done. All other SetAttr
// calls also send earlier writes first: those must not move times that are
// being set. GetAttr does so too, since only the server knows a write's times. A
// caller that waits for a WRITE or a truncation may give up, but the call itself is
// not given up: it could reach the server after the call that replaced it.
//
// Between machines, consistency is close-to-open: Flush makes data visible to
// others, Open asks the server for the attributes and says whether the kernel
// may keep its pages. Where the protocol opens files, attributes and the user's
// rights come with the opening, and only what is missing is asked for. The kernel
// is never told a file's new state before it has dropped the pages and attributes
// of the old one, and Sized says whether it has been told since. Within a mount all
// openings of a file see the same bytes.
//
// The kernel reads its cached pages without a request. runPoll therefore revalidates
// the attributes of files that are open for reading when they have expired, and the
// kernel drops the pages if the file has changed.
//
// Names and attributes are fresh by the ac* rules of nfs(5): a timeout starts at the
// minimum whenever the file is seen to have changed, and doubles up to the maximum
// each time it is seen unchanged. Names are valid as long as the directory's
// attributes are, rights as long as the file's and never longer than the maximum. A
// change of mode, owner or, from elsewhere, ctime invalidates rights, and those in
// replies that are still outstanding. A name is served from memory only to a user
// whose LOOKUP right is known; users are told apart by uid, gid and all groups. A
// directory that Mkdir has made has no names but those in memory until someone else
// changes it, a reply is lost or a name is dropped: LOOKUP is not asked for others within
// acregmin of the last reply that has shown its state, and only if no change of another
// client was seen since, in whatever directory (coherence.Node.Complete). With
// NoAC nothing is fresh, and writes go through. When a handle is found stale, each
// directory's name is looked up once more before it is used, so that the kernel's
// second walk along a path that was replaced finds the new one.
//
// With SoftReval a server that does not answer in time does not keep paths from being walked: names,
// attributes and rights that have merely expired are used once more, by Lookup, GetAttr, GetSize and Access
// (softreval.go). Everything else waits, and so do those for what was never known, or was overtaken.
//
// Reading a directory costs one ACCESS when it is opened and one READDIRPLUS a part:
// no name is looked up for it. For who reads on, the part that follows is asked for before it is
// wanted (Dir.Given); what is older then than acregmin, or of another state of the directory
// than the known one, is read again. What READDIRPLUS returns is served to the lookups that
// follow, as long as it is fresh. The listing of a directory that is closed is kept for who
// opens it again at once (relist).
// The first change of ours in a directory after a listing that showed it makes the
// kernel ignore what that says of it.
//
// When the client has found another directory for a root that the server did not know any
// more, nothing that is cached is believed (rerooted). SetTimes, SetReadOnly and SetReadWrite
// change a Config in use; files open for writing and changes under way keep a mount from
// becoming read-only.
//
// # Whose change was it
//
// NFSv3 tells a file's state by size, mtime and ctime. Each own change returns
// the state before and after it (weak cache consistency); the pairs are chained
// up, in whatever order replies come, from the state that memory agrees with
// to the newest one. A pair that does not fit means that someone else has
// changed the file in between: then what was read ahead, names, rights and the
// kernel's pages go. A WRITE or COMMIT reply that lacks the state before is
// taken for ours: while we write to a file, a change elsewhere may go unseen
// with such servers. A change of ctime alone is expected after our own link,
// rename or unlink.
//
// Replies may also overtake each other. A reply whose call was sent after the last
// attributes were taken over is newer than those. For others ctime decides; if it is
// the same and the rest differs, the attributes are invalid.
//
// # Removing what is open
//
// Unlink and Rename give an open target a name of the form
// .nfs<ino><instance><count>, which no other client chooses, and remove it at
// the last Release, or at Close if that failed. While it is there, its
// directory is not empty for the server: Rmdir gives ENOTEMPTY, but waits for
// those that nobody has open any more, and a second for the rest: the kernel's Release may come later than what a program does after it
// has closed the file. The kernel counts one link less than the
// server does.
//
// # Calls that were sent twice
//
// A server that crashed between executing a call and replying to it executes it
// again. The silly name of a file, and the file that a rename has moved, show that it
// was executed. Nothing is undone before a lookup has shown what is there, and where
// a failure does not show it, the link count is fetched again.
//
// # Locks
//
// Locks of fcntl(2) and flock(2) are decided first among the owners of this mount
// (package locks) and then by the server, whose answer counts; without a server that takes
// locks there are none. Before a lock is taken, and before it is given up, what was
// written is made stable; with the pages of mappings, if it was for writing. After it
// was taken everything that is cached of the file is dropped and the attributes are
// asked for: what another client wrote under the same lock need not show in them. What
// is given up is given up even if its caller has left. When the server has lost a lock, who
// took it can neither read nor write through that opening until the lock is given up.
//
// # Appending
//
// The kernel turns O_APPEND into an offset, from the size that it was last
// given. File.Append therefore takes that only for where the kernel has put the
// bytes, asks the server for the size if attributes have expired, and writes at
// the end; if that is elsewhere, the kernel is told to drop the file's pages.
// Two machines that append to one file at the same moment can overwrite each
// other's bytes, as with all NFS clients.
//
// # Memory
//
// Buffers come from bufpool. Data that is not committed is bounded by MaxDirty,
// at most half the pool; read-ahead never waits for a buffer and leaves a
// quarter of the pool alone. When someone waits for memory, what was read
// ahead is dropped and everything is sent and committed; neither needs a
// buffer, so there is always an end to the wait. An open directory keeps the parts
// that it has read, 16,384 entries, the part in use and one that is read ahead, and all of them
// together 262,144 before each has the part in use only.
//
// # Goroutines and locks
//
// New starts runFlusher and, with a Kernel, runNotices and runPoll. runWrite, runChange,
// runCommit, runLater, runFetch, runReadAhead, runAsk, runClear, runSillyRemove and runUnlock run for one call each. Close joins
// them all.
//
// Locks are taken in this order: polls.mu, File.mu, Inode.mu, Cache.mu, then the pool's.
// fileLocks.mu is a leaf.
// No two inodes are locked at once. No lock is held across a call to the
// server, to Kernel or to bufpool.Get. Config.Log may be called with locks held.
// Unlocking Inode.mu also lets go of names that were dropped, and queues notices
// to the kernel, since both need other locks.
package cache
