package krb5

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// readCache reads the cache that a name stands for, TYPE:RESIDUAL or the path of a file,
// for a user.
func (c *Client) readCache(ctx context.Context, name string, uid uint32) (got *cached, err error) {
	kind, residual, ok := strings.Cut(name, ":")
	if !ok || strings.HasPrefix(name, "/") {
		kind, residual = "FILE", name
	}
	switch kind {
	case "FILE":
		got, err = readFile(residual, uid)
	case "DIR":
		var path string
		if path, err = primary(residual, uid); err == nil {
			got, err = readFile(path, uid)
		}
	case "KEYRING":
		got, err = readKeyring(residual, uid, c.cf.Self)
	case "KCM":
		got, err = readKCM(ctx, c.cf.Conf.kcmSocket, residual, uid, c.cf.Self)
	default:
		err = fmt.Errorf("caches of type %s cannot be read: FILE, DIR, KEYRING and KCM can (kinit -c FILE:/tmp/krb5cc_%d makes one)", kind, uid)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return got, nil
}

// best is the cache of a user's in which the ticket for a realm's KDC lasts longest. errs
// says of each that there is why it is none.
func (c *Client) best(ctx context.Context, uid uint32, own bool, now time.Time) (name string, found *cached, errs []error) {
	var until time.Time
	for _, n := range c.caches(uid, own) {
		got, err := c.readCache(ctx, n, uid)
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
		case found == nil || tgt.end.After(until):
			name, found, until = n, got, tgt.end
		}
	}
	return name, found, errs
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
