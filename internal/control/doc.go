// Package control is the Unix socket on which the daemon of a mount answers the
// commands: status, stats, sync and umount.
//
// It owns the protocol, both sides of it, and where sockets are (place.go): in a
// directory that its user alone can write to, named by the mount point. A request
// is one word and a newline:
//
//	stats   a JSON object, and the end of the connection
//	used    the same, of what processes ask of files; the first request begins to count
//	wait    "waiting"; the connection ends when the mount has ended and its
//	        data is safe, with a line before it if that failed
//	sync    "waiting"; when everything written is safe on the server "done",
//	        or a line that says what failed, or the end of the connection when
//	        the mount ends before
//	log=LEVEL
//	        that much is logged from now on; "ok", or a line that says why not
//	remount as sync, after the device number a list of mount options, which are put in
//	        force together or not at all
//	abort   requests that wait for the server fail from now on; "ok"
//
// The device number of the mount that is meant may follow the word. A daemon that
// serves another one, which was detached from the same place, ends the connection
// without a word.
//
// It refuses to know of a mount more than the functions in Mount. What listens on
// a socket may be another user's program: a client speaks to none but the owner of
// the directory, its answers are bounded in length and time, and what prints
// them makes them plain (package plain).
//
// Invariants: a client that was told "waiting" sees the end: what was lost, or that
// nothing was. A loss is reported once: to a client of sync, or, if that has hung up,
// at the end of the mount.
//
// Goroutines: RunServe is the caller's, and ends with Finish. It starts runAnswer
// for each connection, which Finish joins, and that runAwaitHangUp for each sync,
// which it joins itself.
//
// Server.mu guards the sets of connections. It is held while a line of at most half
// a MiB is written to a client, for no longer than writeTimeout; never while the
// cache syncs.
package control
