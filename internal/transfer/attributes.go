package transfer

import (
	"errors"
	"io/fs"

	"github.com/rdmafs/rdmafs/internal/filetree"
)

const setID = fs.ModeSetuid | fs.ModeSetgid

// modeBits are those of a mode that chmod(2) sets.
const modeBits = fs.ModePerm | setID | fs.ModeSticky

// fileAttributes gives a file that was copied what is to be preserved. replaced is the file
// whose place it takes, whose mode and owner it has otherwise; nil if it was made
// in a new place, and itself if it was written in place.
func (c *Copier) fileAttributes(out *output, source, replaced fs.FileInfo) error {
	inPlace := out.name == out.target
	mode, change := source.Mode()&fs.ModePerm&^c.o.Umask, !inPlace
	like := replaced
	if c.o.Owners {
		like = source
	}
	switch {
	case c.o.Modes:
		mode, change = source.Mode()&modeBits, true
	case replaced != nil:
		mode = replaced.Mode() & modeBits
	}
	if like != nil && (c.o.Owners || !inPlace) {
		kept, err := c.chown(out.name, like)
		if err != nil {
			return err
		}
		if !kept {
			mode &^= setID
		}
	}
	if change {
		if err := c.to.Chmod(out.name, mode); err != nil {
			return err
		}
	}
	return c.times(out.name, source)
}

// chown gives a file the owner and group of another, the group at least, and reports
// whether both could be given.
func (c *Copier) chown(name string, like fs.FileInfo) (kept bool, _ error) {
	uid, gid := filetree.Owner(like)
	err := c.to.Lchown(name, uid, gid)
	if !errors.Is(err, fs.ErrPermission) {
		return err == nil, err
	}
	if err := c.to.Lchown(name, -1, gid); err != nil && !errors.Is(err, fs.ErrPermission) {
		return false, err
	}
	return false, nil
}

func (c *Copier) times(name string, source fs.FileInfo) error {
	if !c.o.Times {
		return nil
	}
	return c.to.Chtimes(name, filetree.AccessTime(source), source.ModTime())
}

// dirAttributes gives a directory what is to be preserved. One that was made for the copy
// also gets the source's mode; it was made with one that lets this user fill it.
func (c *Copier) dirAttributes(name string, source fs.FileInfo, made bool) error {
	mode, change := source.Mode()&fs.ModePerm&^c.o.Umask, made
	if c.o.Modes {
		mode, change = source.Mode()&modeBits, true
	}
	if c.o.Owners {
		kept, err := c.chown(name, source)
		if err != nil {
			return err
		}
		if !kept {
			mode &^= setID
		}
	}
	if change {
		if err := c.to.Chmod(name, mode); err != nil {
			return err
		}
	}
	return c.times(name, source)
}
