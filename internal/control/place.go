package control

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// place is a directory of control sockets, and the user whose daemons listen
// there.
type place struct {
	dir string
	uid uint32
}

// systemDir is where root's sockets are.
const systemDir = "/run/rdmafs"

// userDir is what the login manager makes for a user, who alone can write to it.
func userDir(uid uint32) string { return fmt.Sprintf("/run/user/%d", uid) }

// maxSocketPath is what fits the address of a Unix socket, with its final zero.
const maxSocketPath = 107

// environmentDir is where XDG_RUNTIME_DIR puts a user's sockets; empty without
// it, and where a socket's name would not fit.
func environmentDir() string {
	d := os.Getenv("XDG_RUNTIME_DIR")
	own := filepath.Join(d, "rdmafs")
	// Room for the name, and for what distinguishes stacked mounts.
	if d == "" || len(own)+len("/0123456789abcdef-4194304.sock") > maxSocketPath {
		return ""
	}
	return own
}

// Directory is the runtime directory of this user's daemons, which nobody else can
// write to. It is made if need be.
func Directory() (string, error) { return makePlace() }

// makePlace makes the directory for a socket of this user.
func makePlace() (string, error) {
	uid := uint32(os.Geteuid())
	if uid == 0 {
		return makeRoots(systemDir)
	}
	if d := environmentDir(); d != "" {
		return d, makePrivate(d, uid, "set XDG_RUNTIME_DIR to a directory of yours, or unset it and TMPDIR")
	}
	if up := userDir(uid); privateDir(up, uid) == nil {
		if d := filepath.Join(up, "rdmafs"); makePrivate(d, uid, "") == nil {
			return d, nil
		}
	}
	return makeTemporary(os.TempDir(), uid)
}

// makeRoots makes system, or another directory for root where it cannot: /run is
// read-only, or is another root's, as the machine's is to root of a user namespace.
func makeRoots(system string) (string, error) {
	err := makePrivate(system, 0, "is /run writable?")
	if err == nil {
		return system, nil
	}
	if d := rootsEnvironmentDir(); d != "" && makePrivate(d, 0, "") == nil {
		return d, nil
	}
	d, terr := makeTemporary(os.TempDir(), 0)
	if terr != nil {
		return "", fmt.Errorf("%w; nor is there another: %w", err, terr)
	}
	return d, nil
}

// rootsEnvironmentDir is environmentDir where that is root's: a shell of sudo has
// another user's XDG_RUNTIME_DIR.
func rootsEnvironmentDir() string {
	if d := environmentDir(); d != "" && privateDir(filepath.Dir(d), 0) == nil {
		return d
	}
	return ""
}

func makePrivate(dir string, uid uint32, hint string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the directory of control sockets: %w (%s)", err, hint)
	}
	return privateDir(dir, uid)
}

// makeTemporary makes a directory in tmp, where every user can make one: another
// user may have taken its name. The directory then has a name that cannot be
// guessed; clients read tmp and know the directory by its owner.
func makeTemporary(tmp string, uid uint32) (string, error) {
	if found := temporaryDirs(tmp, uid); len(found) > 0 {
		return found[0], nil
	}
	dir := filepath.Join(tmp, temporaryName(uid))
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, os.ErrExist) {
		dir, err = os.MkdirTemp(tmp, temporaryName(uid)+"-")
	}
	if err != nil {
		return "", fmt.Errorf("cannot make the directory of control sockets: %w (set XDG_RUNTIME_DIR to a directory of yours)", err)
	}
	return dir, privateDir(dir, uid)
}

func temporaryName(uid uint32) string { return fmt.Sprintf("rdmafs-%d", uid) }

// temporaryDirs are a user's directories of sockets in tmp. What other users have
// put there under such names is skipped.
func temporaryDirs(tmp string, uid uint32) (found []string) {
	names, _ := os.ReadDir(tmp) // of one that cannot be read, what was read
	for _, e := range names {
		name := temporaryName(uid)
		if e.Name() != name && !strings.HasPrefix(e.Name(), name+"-") {
			continue
		}
		if d := filepath.Join(tmp, e.Name()); privateDir(d, uid) == nil {
			found = append(found, d)
		}
	}
	return found
}

// privateDir checks that only a user can have put sockets into dir.
func privateDir(dir string, uid uint32) error {
	var st syscall.Stat_t
	if err := syscall.Lstat(dir, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR || st.Uid != uid || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s must be a directory that only its user can write to (remove it, or set XDG_RUNTIME_DIR)", dir)
	}
	return nil
}

// places are where the socket of a mount may be: the user may have mounted it with
// another environment. Root looks where the mount's user would have put it.
func places(mountPoint string) (all []place) {
	own := uint32(os.Geteuid())
	add := func(uid uint32, dirs ...string) {
		for _, d := range dirs {
			p := place{d, uid}
			if !slices.Contains(all, p) && privateDir(d, uid) == nil {
				all = append(all, p)
			}
		}
	}
	uid := own
	if m, ok, err := mounttable.Find(mountPoint); own == 0 && ok && err == nil {
		uid = m.UID
	}
	if own != 0 {
		add(own, environmentDir())
	} else {
		add(own, rootsEnvironmentDir())
	}
	if uid != 0 {
		add(uid, filepath.Join(userDir(uid), "rdmafs"))
	}
	add(uid, temporaryDirs("/tmp", uid)...)
	add(uid, temporaryDirs(os.TempDir(), uid)...)
	add(0, systemDir)
	return all
}
