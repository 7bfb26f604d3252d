// Package filecmd are the commands that use the files of an export without mounting it: cp,
// cat, ls, stat, du, rm, mkdir, checksum, and sync of two trees.
//
// It owns their words, what they print, and the exports that a command opens; each
// export is opened once a command. It refuses to know how files are copied
// (internal/transfer) and how an export is reached (the root package).
//
// Flags and output are those of coreutils, as far as a flag is here. A command goes on after
// an error with what else it was given, says each error on standard error, and fails at
// the end. SIGINT and SIGTERM end it.
//
// Names are printed as they are, but to a terminal as package plain shows them.
package filecmd
