package transfer

import (
	"io/fs"
	"syscall"
)

// When says which targets that exist already are copied anew.
type When int

const (
	Always   When = iota
	Missing       // none
	Older         // those whose data was changed before the source's
	Differs       // those of another size or time
	Contents      // those of another size or other bytes
)

// Options say what Copier does.
type Options struct {
	Recursive bool // directories with what is in them
	Follow    bool // copy what symbolic links lead to, instead of the links

	// What is preserved. Owners are kept as far as this user may set them; what may not be
	// is no error, but then set-id bits go.
	Times, Modes, Owners bool
	HardLinks            bool
	// Umask is taken from the modes of what is made, unless Modes.
	Umask fs.FileMode

	When    When
	InPlace bool
	Resume  bool
	Delete  bool // what the source does not have, from directories that are copied
	DryRun  bool // do nothing but report

	// Files is how many files are copied at once; 0 means 8.
	Files int

	// Copied and Deleted are told of each target; they may be nil. Failed is told of each
	// error, and must not be nil. They are called by one goroutine at a time.
	Copied, Deleted func(target string)
	Failed          func(error)
	// Progress may be nil.
	Progress *Progress
}

// openFrom is how a source is opened: large ones are not read ahead of their pieces.
func openFrom(size int64) int {
	if size > pieceSize {
		return syscall.O_RDONLY | syscall.O_DIRECT
	}
	return syscall.O_RDONLY
}
