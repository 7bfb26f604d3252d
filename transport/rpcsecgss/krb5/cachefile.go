package krb5

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

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

// readCache reads the cache that a name stands for, TYPE:RESIDUAL or the path of a file,
// for a user.
func readCache(name string, uid uint32) (*cached, error) {
	kind, residual, ok := strings.Cut(name, ":")
	if !ok || strings.HasPrefix(name, "/") {
		kind, residual = "FILE", name
	}
	var b []byte
	var err error
	switch kind {
	case "FILE":
		b, err = readOwned(residual, uid, maxCache)
	case "DIR":
		var path string
		if path, err = primary(residual, uid); err == nil {
			b, err = readOwned(path, uid, maxCache)
		}
	default:
		err = fmt.Errorf("caches of type %s cannot be read: FILE and DIR can (kinit -c FILE:/tmp/krb5cc_%d makes one)", kind, uid)
	}
	if err != nil {
		return nil, err
	}
	c, err := parseCache(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
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

// expandUser puts a user in place of %{uid} and the like in the name of a cache, as
// krb5.conf(5) has it. ok is false if something else stands there.
func expandUser(name string, uid uint32) (_ string, ok bool) {
	id := strconv.FormatUint(uint64(uid), 10)
	for _, token := range []string{"%{uid}", "%{euid}", "%{USERID}"} {
		name = strings.ReplaceAll(name, token, id)
	}
	name = strings.ReplaceAll(name, "%{TEMP}", "/tmp")
	return name, !strings.Contains(name, "%{")
}

// sessionCaches are the caches that logins of a user have made beside the usual one, as
// sshd does: /tmp/krb5cc_UID_XXXX. Files of that name that others have made do not count.
func sessionCaches(dir string, uid uint32) (own []string) {
	all, _ := filepath.Glob(filepath.Join(dir, fmt.Sprintf("krb5cc_%d_*", uid)))
	for _, path := range all {
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil && st.Uid == uid && len(own) < maxSessions {
			own = append(own, path)
		}
	}
	return own
}

const maxSessions = 64

// best is the cache of several in which the ticket for a realm's KDC lasts longest. errs
// says of each that there is why it is none.
func best(names []string, uid uint32, now time.Time) (name string, c *cached, errs []error) {
	var until time.Time
	for _, n := range names {
		got, err := readCache(n, uid)
		if err != nil {
			if !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, err)
			}
			continue
		}
		tgt := got.find(now, got.client.realm, "krbtgt", got.client.realm)
		switch {
		case tgt == nil:
			errs = append(errs, fmt.Errorf("%s: the tickets of %s have expired", n, got.client))
		case c == nil || tgt.end.After(until):
			name, c, until = n, got, tgt.end
		}
	}
	return name, c, errs
}
