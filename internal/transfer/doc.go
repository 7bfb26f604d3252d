// Package transfer copies files between two filetree.Trees, one of which is usually an
// export: several files and several pieces of a file at once.
//
// It owns what is made where, in which order, and what becomes of a copy that was cut
// short. It refuses to know of operands and messages: Options.Failed is told of each
// error, and a failed file does not keep others from being copied.
//
// # How a file is copied
//
// A file is written under a name of its own beside the target, made stable, given what is
// to be preserved, and renamed over the target, so that nobody sees half of it and an old
// target stays until the new one is whole. The name has a number made from the source's
// identity, size and time: a copy of another state of the source is never continued.
// Where that cannot be (Options.InPlace, a target that is a symbolic link, a directory that
// cannot be written to) the target itself is written. Only regular files are written.
//
// At most window pieces of a file are under way, in order: all bytes of a file that is
// written elsewhere first are there but for the last window pieces below its size.
// This is what Options.Resume relies on. Pieces of an export's file are then written so
// that each is stable before it counts.
//
// # Order
//
// Directories are made before what is in them. Their times and modes are set, and further
// names of a file are made, after all files; what is to be deleted goes last, and not
// from a directory in which anything failed.
//
// # Goroutines and locks
//
// Copier.Run walks the source on the caller's goroutine and starts runFiles, Options.Files
// of them, and runPiece for each piece of a large file; it returns after they have ended.
// Copier.mu is a leaf.
package transfer
