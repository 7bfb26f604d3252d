// Package krb5 is the Kerberos mechanism of RPCSEC_GSS (RFC 4121): the tokens that
// protect messages, and the exchange that a context begins with.
//
// It owns the keys of a context, which are derived once, both AES families of encryption
// types (RFC 3962, RFC 8009), and where a user's tickets come from: krb5.conf(5), keytabs,
// caches of the types FILE and DIR, and KDCs, which it asks itself. It refuses other
// encryption types, and other caches. gokrb5 knows the messages of RFC 4120.
//
// An exchange with a KDC ends with the context of who asks, and is bounded without. The
// length of an answer, the number of KDCs and the number of realms on the way to a service are
// bounded. A reply is checked against its request before anything in it is used; gokrb5's
// decoders, which take it for granted that a message is complete, are guarded.
//
// Everything in a token is checked before it is used. A token that this end has made is
// refused when it comes back: its direction is authenticated by the key it is made with. A
// cache belongs to its user: it is read only as that user's regular file, which nobody else
// may write to, and by a parser that takes nothing in it for granted.
//
// Tokens, Client and User may be used from any goroutine. Users' tickets are got one at a
// time for each user, and who waits for that can be given up.
//
// # Goroutines
//
// None: whoever needs a ticket asks for it.
//
// # Locks
//
// keyFile.mu is a leaf, and held while a keytab is read.
package krb5
