// Package callback hears what the server of a mount calls back: NLM_GRANTED and
// NLM_GRANTED_MSG (RFC 1813 section 6.3.5), that a lock which waited there is granted,
// and SM_NOTIFY of NSM, that it has restarted.
//
// It owns a TCP and a UDP port, which servers find by this host's rpcbind, and the
// registrations there: NLM version 4, and NSM version 1. It refuses to stand in
// anybody's way. A program that somebody else has registered, the kernel's lockd or
// rpc.statd or another mount, is left to them, and NSM, too, where NLM is another's.
// The kernel's lockd takes NLM without asking; rpc.statd cannot, and mount.nfs only starts it
// if no monitor answers here: the first NULL from this very host is refused and ends the
// registration of NSM.
//
// What a process that was killed has registered is known by a note (Config.Note), and
// dropped by the next of the same user.
//
// It refuses calls from any other address than the server's, closing connections of others
// at once, and to decide: the Handler
// says whether a lock is wanted. Arguments are bounded and checked before it sees them.
//
// # Goroutines
//
// Listen starts runTCP and runUDP; Close joins both, and whatever they run.
//
// # Locks
//
// Listener.mu is a leaf.
package callback
