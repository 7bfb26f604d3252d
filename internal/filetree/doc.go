// Package filetree lets the commands that work on files without a mount use an export
// and this machine's files alike.
//
// It owns the seam, Tree, and its implementation for this machine, Local. That for an
// export is with the commands, which alone open one. It refuses to know of operands,
// messages and options.
//
// # Names
//
// A Tree takes names with slashes. Those of an export are what io/fs calls valid, "." its
// root; those of Local are any that the kernel takes. Path joins both.
//
// The package keeps no state and starts no goroutine. All methods may be called from any
// goroutine.
package filetree
