// Package krb5 is the Kerberos mechanism of RPCSEC_GSS (RFC 4121): the tokens that
// protect messages, and the exchange that a context begins with.
//
// It owns the keys of a context, which are derived once, both AES families of encryption
// types (RFC 3962, RFC 8009), and where a user's tickets come from: krb5.conf(5), keytabs,
// caches of the types FILE, DIR, KEYRING and KCM, and KDCs, which it asks itself. It refuses
// other encryption types, and other caches, and writes none. gokrb5 knows the messages of RFC
// 4120.
//
// An exchange with a KDC ends with the context of who asks, and is bounded without. The
// length of an answer, the number of KDCs and the number of realms on the way to a service are
// bounded. A reply is checked against its request before anything in it is used; gokrb5's
// decoders, which take it for granted that a message is complete, are guarded, and its errors of keytabs, which quote keys,
// are not passed on.
//
// Everything in a token is checked before it is used. A token that this end has made is
// refused when it comes back: its direction is authenticated by the key it is made with. A
// cache belongs to its user: a file only if it is that user's, and regular, and nobody else may
// write to it; keys only if the kernel says that they are that user's; from KCM what it gives
// to that user. Its parser takes nothing in it for granted.
//
// Tokens, Client and User may be used from any goroutine. Users' tickets are got one at a
// time for each user, and who waits for that can be given up.
//
// # Goroutines
//
// runThread, on a thread that ends with it, reads keyrings, and connects to KCM as another
// user; onOwnThread waits for it.
//
// # Locks
//
// keyFile.mu is a leaf, and held while a keytab is read.
package krb5
