package krb5

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// errForeign: a cache does not belong to the user whose tickets are looked for.
var errForeign = errors.New("it does not belong to the user")

// readOwned reads a regular file that belongs to a user, and that nobody else may write
// to. The last component of path may be no symbolic link.
func readOwned(path string, uid uint32, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fmt.Errorf("%s is no regular file", path)
	case st.Uid != uid:
		return nil, fmt.Errorf("%s: %w: its owner is user %d", path, errForeign, st.Uid)
	case st.Mode&0o022 != 0:
		return nil, fmt.Errorf("%s may be written by others than its owner", path)
	case st.Size > limit:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// readFile reads the cache that is a file.
func readFile(path string, uid uint32) (*cached, error) {
	b, err := readOwned(path, uid, maxCache)
	if err != nil {
		return nil, err
	}
	return parseCache(b)
}

// primary is the file of a cache of type DIR: that which the file "primary" names, or the
// one that follows a further colon.
func primary(residual string, uid uint32) (string, error) {
	if path, ok := strings.CutPrefix(residual, ":"); ok {
		return path, nil
	}
	b, err := readOwned(filepath.Join(residual, "primary"), uid, 256)
	if errors.Is(err, os.ErrNotExist) {
		return filepath.Join(residual, "tkt"), nil
	}
	if err != nil {
		return "", err
	}
	name := strings.TrimSpace(string(b))
	if !strings.HasPrefix(name, "tkt") || strings.Contains(name, "/") {
		return "", fmt.Errorf("%s names %q as the cache to use", filepath.Join(residual, "primary"), name)
	}
	return filepath.Join(residual, name), nil
}
