package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/rdmafs/rdmafs/internal/control"
)

// crashFile is where the trace of a daemon goes that panics, or is sent SIGQUIT.
func crashFile(dir string) (string, error) {
	at, err := control.Directory()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(at, fmt.Sprintf("crash-%x.log", sum[:8])), nil
}

// keepCrash has the runtime write the trace of a crash to the end of the mount's log file, or of a file of its own. forget
// removes that file, unless there is something in it.
func keepCrash(l *mountLog, dir string) (forget func(), err error) {
	if l.file != nil {
		return func() {}, debug.SetCrashOutput(l.file, debug.CrashOptions{})
	}
	name, err := crashFile(dir)
	if err != nil {
		return func() {}, err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return func() {}, err
	}
	defer f.Close() // the runtime has its own descriptor
	if err := debug.SetCrashOutput(f, debug.CrashOptions{}); err != nil {
		return func() {}, err
	}
	return func() {
		if st, err := os.Stat(name); err == nil && st.Size() == 0 {
			_ = os.Remove(name)
		}
	}, nil
}

// crashed says where the trace of a mount's daemon is that has crashed; "" if there is none.
func crashed(dir string) string {
	name, err := crashFile(dir)
	if err != nil {
		return ""
	}
	if st, err := os.Stat(name); err != nil || st.Size() == 0 {
		return ""
	}
	return fmt.Sprintf("; a daemon of this mount point has crashed, its trace is in %s", name)
}
