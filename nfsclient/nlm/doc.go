// Package nlm locks byte ranges at an NFSv3 server, by the Network Lock Manager
// version 4 (RFC 1813 appendix II). It implements nfsclient.Locker for nfsclient/nfs3.
//
// It owns its TCP connection (NLM never travels over RDMA: RFC 8267 section 5.1), whose
// port it asks rpcbind for each time it connects; what each owner holds in each file;
// and the journal of that. It refuses to know of processes, flock and paths, and to free
// what it did not lock.
//
// # Owners
//
// Linux servers know an owner by this host's address and a 31-bit number, svid. All
// that take locks from one address share the numbers, so each owner has one at random,
// unlike the kernel's client, which counts from small ones.
//
// NLM_FREE_ALL and SM_NOTIFY are never sent: such servers take them for the
// host's, and would free the locks of the kernel's client and of every other mount.
//
// # Normal operation
//
// If somebody else has a lock that is to be waited for, it is asked for again after 10 ms, and
// at growing intervals up to a second: that is not fair, but no lock is ever granted to a
// client that has gone. Where callbacks could be registered (nlm/callback) the LOCK says
// block, so that the server may queue it and notices deadlocks between mounts; those between
// processes of one mount are for the caller (cache/locks). The server's GRANTED wakes the
// waiter, who asks once more, in his turn, and is answered at once: what a holder has is
// changed by nothing else. A server that has called back is polled each 30 s, until
// polling has got a lock of which it did not tell: Linux 6.7 to 6.12 says BLOCKED and never
// calls, and rpcbind may send its calls elsewhere. GRANTED is answered so only while somebody
// waits for that lock, or holds it. Who gives up is forgotten first, then CANCEL and UNLOCK
// are sent: of a GRANTED in between one of the two takes the lock back. While the server is in its grace period every request, TEST and UNLOCK too, is made
// again each second until it is over. Calls for one owner in one file are made one
// after the other; between two tries others of that owner have their turn. A request
// that is not answered within 5 s is made again: Linux drops those that conflict with a
// delegation until that was recalled.
//
// If its caller goes while a LOCK is outstanding, the answer is still waited for, and
// what was granted is given back; if there is none, CANCEL and UNLOCK are sent. An
// UNLOCK, too, goes on without its caller until the server has answered. An owner that holds
// nothing makes no call to unlock.
//
// # Recovery
//
// That the server may have restarted is seen by the loss of the connection, by the loss of
// one of NFS (Watched), by a write verifier that has changed (Restarted), and by SM_NOTIFY from
// its address, once for each state number. While locks are held a call every 5 s tests
// both connections; NFS is called, too, before locks are recovered, so that it has a
// connection whose loss shows the next restart (Config.Probe). Each range is then
// asked for with the reclaim flag, and, if the server is not in its grace period,
// without: it is granted if it is still ours, or free again; whether somebody had it in
// between cannot be known, and the log counts these. What somebody else has by then, or
// the server was unable to take for maxUnable tries, is lost; the Watcher is told, and the log.
// The way of one lock is a machine without sockets and clock (machine.go).
//
// No server takes locks back from a client that died. Whoever may hold some is noted in
// the journal before the first LOCK is sent, and the next Client for the same address
// gives back what a process that was killed has left, or one that was closed before the
// server had answered. Without Config.JournalDir there is no journal, and what is left
// stays locked.
//
// # Invariants
//
//   - The server holds for us what is in a holder's set, but for ranges of which a call
//     is under way, by who has the holder's turn.
//   - A LOCK is sent only while its owner is in the journal, if there is one.
//
// # Goroutines
//
// Those of nlm/callback; runWithdraw of a LOCK that was queued and is given up; runAsk of each LOCK, so that its answer is not lost with its caller; runUndo of what
// goes on without its caller; runRecover from the first lock on, which serves callbacks; runSweep if there is
// a dead process's journal; runWatch of each connection. Close joins them all.
//
// # Locks
//
// A holder's turn, then Client.mu, then those of svids and journal, which are leaves. A
// turn is kept across calls to the server; that is what it is for. No mutex is.
package nlm
