package privilege

import (
	"fmt"
	"os/exec"
)

// helperPlaces is where Helper looks. mount(8) starts its helpers for ordinary users
// without PATH.
var helperPlaces = []string{
	"fusermount3", "/usr/bin/fusermount3", "/bin/fusermount3", "/usr/local/bin/fusermount3",
	"fusermount", "/usr/bin/fusermount", "/bin/fusermount",
}

// Helper is the path of the program that mounts and unmounts FUSE file systems for
// ordinary users.
func Helper() (path string, err error) {
	for _, name := range helperPlaces {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("fusermount3 is neither in PATH nor in /usr/bin (install the package fuse3): %w", exec.ErrNotFound)
}
