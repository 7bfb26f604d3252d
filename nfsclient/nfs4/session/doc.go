// Package session is the session of NFSv4.1 and 4.2 with one server (RFC 8881 sections 2.10 and
// 18.46): it makes each compound be carried out once, keeps the client's lease, and gets both back
// when the server has lost them.
//
// It owns the client ID, the session, its slots and their sequence IDs, and the lease. It refuses to know
// of files: what the server held for the client, and how that is reclaimed, is for Config.Recover.
//
// # Normal operation
//
// Do takes the lowest slot that is free, puts SEQUENCE in front of the compound, and makes one call of
// the transport. SEQUENCE is fixed before that, so that a transport that sends the call again over another
// connection sends the same request, which the server knows again. Sizes and the number of operations are
// checked before: there are servers that a compound too large has left broken. Slot 0 is kept for the
// session itself, unless there is no other, so that the lease is renewed with all slots taken; and no more slots are used
// than leave it a credit of the transport.
//
// What SEQUENCE answers decides how it goes on (verdict.go). A slot is given back when its call was
// answered. One whose call was given up is parked: the server may have carried the request
// out, may be at it, or may never have seen it, and another compound under the same sequence ID
// would be answered with the reply to the first. SEQUENCE alone, with the same sequence ID and
// cachethis, is sent until it is answered; after that the ID is used in any case.
//
// sr_target_highest_slotid bounds the slots that new requests take. sr_highest_slotid does, too.
//
// Connections bind themselves by their first SEQUENCE. Once a server has answered CONN_NOT_BOUND_TO_SESSION
// they are bound by BIND_CONN_TO_SESSION, new ones before anything else goes over them (Binder).
//
// A request renews the lease from the moment it was sent, by a clock that goes on while the host is suspended. If none was for two thirds of the lease, SEQUENCE
// alone is.
//
// # Back channel
//
// With Config.Callbacks a back channel is asked for. The connection that carried CREATE_SESSION is bound to it, and each
// one after that by Binder.Establish before anything else is sent over it. Where the server says all
// the same that it has no path to the client (SEQ4_STATUS_CB_PATH_DOWN), runManage binds a connection; if the server does not let it, or
// the channel itself is at fault (BACKCHANNEL_FAULT), the session is made anew, at growing intervals. Until the server says that
// no more, and while it says that state is revoked, Leased is false: what could not be recalled is not relied upon.
//
// # Recovery
//
// When a session is lost (BADSESSION, DEADSESSION) or of no use (SEQ_MISORDERED), or the server says that
// state is to be reclaimed (SEQ4_STATUS_RESTART_RECLAIM_NEEDED), the gate closes: new calls wait. Those under
// way end; runManage waits for that. Then it creates a session, for which the server may have to be asked
// for a new client ID (STALE_CLIENTID), and if that was given calls Config.Recover, whose own calls pass
// the gate. RECLAIM_COMPLETE follows whatever Recover says, also for a new client: before it
// servers answer GRACE to all that makes state. The gate opens, and compounds that were not carried
// out are made anew, after Call.Prepare. One of which that is not known says Repeated.
//
// If the session is lost during that, if the transport gives up, or if the server refuses, all of it begins
// again, until it succeeds or Close is called: nothing here relies on a hard mount. When the
// transport has given up, and when the server's answer will not change by itself, the calls that wait get the
// error, and later ones wait for the next attempt.
//
// State that was revoked is tested by Config.Recover while other calls go on, once a lease.
//
// # Invariants
//
//   - Under one sequence ID of a slot one request is sent, or SEQUENCE alone in its place.
//   - No request is sent to a session after it is known to be lost.
//   - csa_sequence goes on only when CREATE_SESSION was answered.
//   - Config.Recover runs with no other call under way, but for the loss Revoked.
//
// # Deadlock
//
// The recovery waits for calls under way, which wait for the server alone: never for the
// gate, which they have passed, and never for a slot, which they have. Config.Recover must not
// wait for a lock that is held across Do, nor Call.Prepare for anything.
//
// # Goroutines
//
// runManage, which recovers, and runRenew, started by Open; runClean of each parked slot. Close joins them.
//
// # Locks
//
// Session.mu, which is never held across a call, and Binder.mu, under which nothing is called.
package session
