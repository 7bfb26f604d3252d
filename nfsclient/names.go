package nfsclient

import "strings"

// CheckName refuses, as an error of op, names that no file can have, and those of more than
// limit bytes.
func CheckName(op, name string, limit uint32) error {
	switch {
	case name == "":
		return &Error{Op: op, Status: ErrNoEnt}
	case len(name) > int(limit):
		return &Error{Op: op, Status: ErrNameTooLong}
	case !ValidName(name):
		return &Error{Op: op, Status: ErrInval}
	}
	return nil
}

// ValidName reports whether a file can have a name, of any length.
func ValidName(name string) bool { return name != "" && !strings.ContainsAny(name, "/\x00") }
