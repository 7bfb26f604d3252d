package krb5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A cache of type KEYRING, as MIT's library writes it, is a keyring of the kernel. Its name is
// ANCHOR:COLLECTION:CACHE, ANCHOR:COLLECTION or COLLECTION. The anchor is the keyring in
// which that of the collection is: _krb in the persistent keyring of a user, and
// _krb_COLLECTION elsewhere. The collection has a keyring for each cache, and a key that says
// which of these is meant when none is named. A cache has a key for its principal and one for
// each ticket, both in the format of files of version 4.
const (
	keyPrimary     = "krb_ccache:primary"
	keyPrincipal   = "__krb5_princ__"
	keyTimeOffsets = "__krb5_time_offsets__"

	maxPrimary = 1 << 10
)

// readKeyring reads such a cache of a user. self is who this process runs as.
func readKeyring(residual string, uid, self uint32) (c *cached, err error) {
	anchor, rest, ok := strings.Cut(residual, ":")
	if !ok {
		anchor, rest = "legacy", residual
	}
	collection, cache, named := strings.Cut(rest, ":")
	// Only who has a keyring among his own, or below them, may read what is in it: the
	// thread's keyring is made to hold the anchor.
	onOwnThread(func() {
		var k keyring
		if k, err = openCollection(anchor, collection, uid, self); err != nil {
			return
		}
		if !named {
			if cache, err = k.primary(); err != nil {
				return
			}
		}
		if k, err = k.keyring(cache); err == nil {
			c, err = k.cache()
		}
	})
	return c, err
}

// keyring is one of a user's, by its serial number.
type keyring struct {
	id  int
	uid uint32
}

// openCollection finds the keyring of a collection.
func openCollection(anchor, collection string, uid, self uint32) (keyring, error) {
	if anchor == "persistent" {
		return openPersistent(collection, uid, self)
	}
	if uid != self {
		return keyring{}, fmt.Errorf("the keyring %q of another user cannot be reached: his persistent one can (KEYRING:persistent:%d)", anchor, uid)
	}
	at := keyring{uid: uid}
	switch anchor {
	case "session", "legacy":
		at.id = unix.KEY_SPEC_SESSION_KEYRING
	case "user":
		at.id = unix.KEY_SPEC_USER_KEYRING
		if err := possess(at.id); err != nil {
			return keyring{}, err
		}
	default:
		return keyring{}, fmt.Errorf("keyrings %q cannot be read: persistent, session and user can", anchor)
	}
	return at.collection("_krb_" + collection)
}

// openPersistent finds a user's collection in his persistent keyring, or, where the kernel
// has none of those, in his user keyring.
func openPersistent(collection string, uid, self uint32) (keyring, error) {
	if n, err := strconv.ParseUint(collection, 10, 32); collection != "" && (err != nil || n != uint64(uid)) {
		return keyring{}, fmt.Errorf("%w: it is that of user %s", errForeign, collection)
	}
	id, err := unix.KeyctlInt(unix.KEYCTL_GET_PERSISTENT, int(uid), unix.KEY_SPEC_THREAD_KEYRING, 0, 0)
	if errors.Is(err, unix.EOPNOTSUPP) && uid == self {
		id = unix.KEY_SPEC_USER_KEYRING
		err = possess(id)
	}
	if err != nil {
		return keyring{}, keyctlError("the persistent keyring", err)
	}
	return keyring{id, uid}.collection("_krb")
}

// possess has this thread possess a keyring of its user.
func possess(id int) error {
	_, err := unix.KeyctlInt(unix.KEYCTL_LINK, id, unix.KEY_SPEC_THREAD_KEYRING, 0, 0)
	return keyctlError("the user keyring", err)
}

// keyctlError says what a refusal of the kernel means.
func keyctlError(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOKEY), errors.Is(err, unix.EKEYEXPIRED):
		return errNoCache
	case errors.Is(err, unix.EKEYREVOKED):
		return fmt.Errorf("%s: %w: the session that it was of has ended", what, err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%s: %w: keyctl(2) is not allowed, as in many containers, or not there", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// collection finds that of a name in k or, as MIT's library does, in the keyrings in it: the
// keyring of a session has that of its user.
func (k keyring) collection(name string) (keyring, error) {
	id, err := unix.KeyctlSearch(k.id, "keyring", name, 0)
	if err != nil {
		return keyring{}, keyctlError("keyring", err)
	}
	got, err := describe(id)
	if err != nil {
		return keyring{}, keyctlError("keyring", err)
	}
	if got.owner != k.owner() {
		return keyring{}, fmt.Errorf("%w: the owner of the keyring %s is user %s", errForeign, name, got.owner)
	}
	return keyring{id, k.uid}, nil
}

func (k keyring) owner() string { return strconv.FormatUint(uint64(k.uid), 10) }

// key is an entry of a keyring.
type key struct {
	id                int
	kind, owner, name string
}

func describe(id int) (key, error) {
	text, err := unix.KeyctlString(unix.KEYCTL_DESCRIBE, id)
	if err != nil {
		return key{}, err
	}
	f := strings.SplitN(text, ";", 5) // type;uid;gid;permissions;description
	if len(f) < 5 {
		return key{}, fmt.Errorf("the kernel describes a key as %q", text)
	}
	return key{id, f[0], f[1], f[4]}, nil
}

// keys lists those that belong to the keyring's user: others, which somebody has put there,
// do not count.
func (k keyring) keys() (all []key, foreign int, err error) {
	b, err := readKey(k.id, 4*maxTickets)
	if err != nil {
		return nil, 0, keyctlError("keyring", err)
	}
	for ; len(b) >= 4; b = b[4:] {
		got, err := describe(int(int32(binary.NativeEndian.Uint32(b))))
		switch {
		case err != nil: // it has expired, or was removed
		case got.owner != k.owner():
			foreign++
		default:
			all = append(all, got)
		}
	}
	return all, foreign, nil
}

// keyring finds one in k.
func (k keyring) keyring(name string) (keyring, error) {
	found, err := k.find("keyring", name)
	return keyring{found.id, k.uid}, err
}

func (k keyring) find(kind, name string) (key, error) {
	all, foreign, err := k.keys()
	if err != nil {
		return key{}, err
	}
	for _, got := range all {
		if got.kind == kind && got.name == name {
			return got, nil
		}
	}
	if foreign > 0 {
		return key{}, fmt.Errorf("%w: it has no %s, but %d keys of others", errForeign, name, foreign)
	}
	return key{}, errNoCache
}

// primary is the name of the cache that a collection stands for.
func (k keyring) primary() (string, error) {
	index, err := k.find("user", keyPrimary)
	if err != nil {
		return "", err
	}
	b, err := readKey(index.id, maxPrimary)
	if err != nil {
		return "", keyctlError(keyPrimary, err)
	}
	r := &cacheReader{b: b}
	version, name := r.uint32(), r.data()
	if r.bad || version != 1 {
		return "", fmt.Errorf("the key %s is not of version 1, or damaged", keyPrimary)
	}
	return string(name), nil
}

// cache reads what a cache's keyring has.
func (k keyring) cache() (*cached, error) {
	keys, _, err := k.keys()
	if err != nil {
		return nil, err
	}
	c := &cached{}
	known := false
	for left := maxCache; len(keys) > 0; keys = keys[1:] {
		at := keys[0]
		if at.kind != "user" && at.kind != "big_key" || at.name == keyTimeOffsets {
			continue
		}
		b, err := readKey(at.id, left)
		if errors.Is(err, errKeyTooLong) {
			return nil, fmt.Errorf("%w: it has more than %d bytes", errCache, maxCache)
		}
		if err != nil {
			continue // it has expired, or was removed
		}
		left -= len(b)
		if at.name == keyPrincipal {
			c.client, err = parsePrincipal(b)
			known = err == nil
		} else {
			err = c.add(b)
		}
		if err != nil {
			return nil, err
		}
	}
	if !known {
		return nil, fmt.Errorf("it has no principal: %w", os.ErrNotExist)
	}
	return c, nil
}

var errKeyTooLong = errors.New("the key is too long")

// readKey reads what a key holds, limit bytes at most.
func readKey(id, limit int) ([]byte, error) {
	n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, nil, 0)
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, errKeyTooLong
	}
	b := make([]byte, n)
	if n, err = unix.KeyctlBuffer(unix.KEYCTL_READ, id, b, 0); err != nil {
		return nil, err
	}
	// It may have changed meanwhile; what is cut short is damaged.
	return b[:min(n, len(b))], nil
}
