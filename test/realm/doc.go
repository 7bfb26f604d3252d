// Package realm is a Kerberos realm for tests: MIT's KDC on a free port of the
// loopback address, with its database, keytabs, credential caches and
// configuration in a temporary directory of the test.
//
// It owns the KDC's process and that directory. Nothing of the machine's own
// Kerberos configuration is read or written: whoever uses the realm gets its
// krb5.conf by Env or Conf. Root is not needed. The packages krb5-kdc,
// krb5-admin-server and krb5-user are; without them Start skips the test, or
// fails it if RDMAFS_REALM_REQUIRED is set.
//
// It refuses what tests have had no use for: several KDCs, trust between realms,
// kadmind, and password changes.
//
// # Goroutines
//
// runKDC stays on the thread that started the KDC and waits for its end; runLog reads
// what it writes. StopKDC, and the end of the test, join both.
//
// # Locks
//
// Realm.mu guards the process of the KDC and is a leaf. Adding principals is for
// one goroutine at a time.
package realm
