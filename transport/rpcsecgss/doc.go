// Package rpcsecgss is RPCSEC_GSS (RFC 2203), without any mechanism: Tokens, Initiator and
// Acceptor are what a mechanism provides. transport/rpcsecgss/krb5 is one.
//
// It owns both halves: Dialer decorates another, so that each user's calls on each link are
// made under a context of that user and link, and Server decorates a handler. A context
// never leaves its link, so that its sequence numbers are not reordered between
// connections.
//
// It refuses versions 2 and 3 (RFC 5403, RFC 7861), mechanisms that need more than one
// token each way, and quality of protection other than the mechanism's default.
//
// # The client
//
// The first call of a user on a link makes the context, others of that user wait for it.
// Each transmission has a number of its own, and the reply's verifier may be that of any
// number that was sent for the call. A reply that is not authentic is discarded, and the call sent again under its
// transaction id, twice at most: it may have been carried out (transport.Call.Resent). No more calls than half the server's window are
// outstanding, and none begins while a number far behind has not been sent (pacer). When
// the server does not know the context any more, a new one is made, once for each call,
// and the call sent again under its transaction id: the server has not carried it out. If
// it denies that one, too, the call has no credential. Before the ticket ends a new context
// takes the place of the old one, which is destroyed when no call uses it.
//
// An attempt to which there was no answer, because the connection was lost, goes on over the
// next one with the same token, which to some servers is a replay. One that is refused is
// followed by another, by another token and ticket, once. That no context can be made for a
// user (transport.ErrNoCredential) is remembered for five seconds. Users who make no calls any
// more are dropped with their contexts, tickets and keys, as new ones come: what is kept is
// bounded by twice the users of the last ten minutes.
//
// A denial and the accept_stat of a reply are not protected by RPCSEC_GSS: who can change
// what travels can make calls fail, and contexts be made again, but cannot change a
// result of krb5i or krb5p, or read one of krb5p.
//
// # Goroutines
//
// runDestroy tells the server that contexts are not needed any more, within a second; the
// link's Close joins it.
//
// # Locks
//
// link.mu and user.mu are not held across a call to the server or the mechanism. Order:
// link.mu before pacer.mu, and before Dialer.mu. user.mu is a leaf.
package rpcsecgss
