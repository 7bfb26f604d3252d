package control

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestTakenName: where another user has taken the name of a directory of
// sockets, there is one with another name, found again by its owner.
func TestTakenName(t *testing.T) {
	const uid = 4711
	if os.Geteuid() != 0 {
		t.Skip("needs root: it acts as two users")
	}
	own := func(d string) {
		t.Helper()
		if err := os.Chown(d, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	for what, squat := range map[string]func(tmp, name string) error{
		"nothing":   func(tmp, name string) error { return nil },
		"directory": func(tmp, name string) error { return os.Mkdir(name, 0o777) },
		"file":      func(tmp, name string) error { return os.WriteFile(name, nil, 0o666) },
		"dangling":  func(tmp, name string) error { return os.Symlink("/nonexistent", name) },
		"link to a directory of the user": func(tmp, name string) error {
			if err := os.Mkdir(filepath.Join(tmp, "home"), 0o700); err != nil {
				return err
			}
			own(filepath.Join(tmp, "home"))
			return os.Symlink(filepath.Join(tmp, "home"), name)
		},
	} {
		t.Run(what, func(t *testing.T) {
			tmp := t.TempDir()
			name := filepath.Join(tmp, temporaryName(uid))
			if err := squat(tmp, name); err != nil {
				t.Fatal(err)
			}
			// Names that look like it, of this and of another user.
			for _, n := range []string{name + "-", name + "-1", name + "1"} {
				if err := os.Mkdir(n, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			own(name + "1")
			dir, err := makeTemporary(tmp, uid)
			// Made by root here, it is not the user's yet.
			if dir == "" {
				t.Fatal(err)
			}
			own(dir)
			if what == "nothing" && dir != name {
				t.Errorf("%s instead of %s", dir, name)
			}
			if found := temporaryDirs(tmp, uid); !slices.Equal(found, []string{dir}) {
				t.Errorf("found %q, made %s", found, dir)
			}
			if again, err := makeTemporary(tmp, uid); again != dir || err != nil {
				t.Errorf("then %s instead of %s, %v", again, dir, err)
			}
		})
	}
}
