package rdmafs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// failure is an error whose number alone would not say what happened.
type failure struct {
	errno syscall.Errno
	err   error
}

func (f *failure) Error() string   { return f.err.Error() }
func (f *failure) Unwrap() []error { return []error{f.errno, f.err} }

// reason is what a PathError wraps for an error of the layers below.
func (x *export) reason(err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		if x.life.Err() != nil {
			return fs.ErrClosed // Close has ended it
		}
		return err
	case errors.Is(err, fs.ErrClosed), errors.Is(err, fs.ErrInvalid):
		return err
	}
	n := nfsclient.Errno(err)
	if _, answered := nfsclient.StatusOf(err); answered && n != syscall.EIO || err == n {
		return n
	}
	return &failure{n, err}
}

// pathError is the error of an operation on a name; nil for nil.
func (x *export) pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: x.reason(err)}
}

// linkError is the error of an operation on two names; nil for nil.
func (x *export) linkError(op, old, new string, err error) error {
	if err == nil {
		return nil
	}
	return &os.LinkError{Op: op, Old: old, New: new, Err: x.reason(err)}
}
