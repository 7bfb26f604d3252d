// Package journal sends records to systemd-journald by its native protocol
// (systemd.io/JOURNAL_NATIVE_PROTOCOL): fields with names in datagrams, and in a sealed
// memfd what does not fit one.
//
// It owns the socket and the encoding. It refuses to know what is logged, and what the
// fields mean. Values are sent as they are: journald keeps any bytes, and journalctl
// escapes them.
//
// A journald that takes nothing does not stop the sender for long: the first record that it
// does not take within sendTimeout is lost, and so are those that follow, at once, until it
// takes one again. That one is followed by one that says how many were lost.
//
// No goroutines. Journal.mu is held while a record is sent, and is a leaf.
package journal
