// Package krb5 is the Kerberos mechanism of RPCSEC_GSS (RFC 4121): the tokens that
// protect messages, and the exchange that a context begins with.
//
// It owns the keys of a context, which are derived once, both AES families of encryption
// types (RFC 3962, RFC 8009), and where a user's tickets come from: krb5.conf(5), keytabs,
// and caches of the types FILE and DIR. It refuses other encryption types, and other
// caches. gokrb5 talks to KDCs and knows the messages of RFC 4120.
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
// User.runExchange asks a KDC, for longer than its caller waits if need be; Client.Wait joins
// it. gokrb5 starts a goroutine that renews a ticket when a KDC refers to another realm, and
// it is told to end before the exchange returns.
//
// # Locks
//
// keyFile.mu is a leaf, and held while a keytab is read.
package krb5
