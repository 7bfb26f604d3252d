package knfsd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// image is what the guest boots from.
type image struct {
	kernel, initrd string
}

// ErrUnavailable is why this machine cannot run a guest as configured.
var ErrUnavailable = errors.New("knfsd: not available here")

// Available reports whether this machine has what a guest of the kind c needs to
// run; its error says what is missing and wraps ErrUnavailable.
func Available(c Config) error {
	missing := func(format string, a ...any) error {
		return fmt.Errorf("%w: %s", ErrUnavailable, fmt.Sprintf(format, a...))
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return missing("guests are made for linux/amd64 only")
	}
	for _, p := range []string{qemu, "apt-get", "dpkg-deb", "cpio", "xz", "make", "gcc", "strip"} {
		if _, err := exec.LookPath(p); err != nil {
			return missing("%s is not installed (test/knfsd/guest/setup installs it)", p)
		}
	}
	if c.Network != Tap {
		return nil
	}
	if os.Geteuid() != 0 {
		return missing("a tap network needs root")
	}
	if _, err := os.Stat(tunDevice); err != nil {
		return missing("%v", err)
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return missing("ip is not installed (test/knfsd/guest/setup installs it)")
	}
	return nil
}

// scripts finds the folder that the guest is built from: below the working
// directory or a parent of it, which holds for every test of the module.
func scripts() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := at; ; dir = filepath.Dir(dir) {
		found := filepath.Join(dir, "test", "knfsd", "guest")
		if _, err := os.Stat(filepath.Join(found, "build")); err == nil {
			return found, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("knfsd: %s is not inside the source tree", at)
		}
	}
}

// Build makes sure that the image is in the cache, which takes a download of
// about 300 MB and a minute the first time. Start calls it.
func Build(ctx context.Context) error {
	_, err := build(ctx)
	return err
}

func build(ctx context.Context) (image, error) {
	dir, err := scripts()
	if err != nil {
		return image{}, err
	}
	var out, log bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "build"))
	cmd.Stdout, cmd.Stderr = &out, &log
	endWithUs(cmd)
	if err := cmd.Run(); err != nil {
		return image{}, fmt.Errorf("knfsd: build of the guest: %w\n%s", err, tail(log.Bytes(), 4<<10))
	}
	at := strings.TrimSpace(out.String())
	return image{kernel: filepath.Join(at, "vmlinuz"), initrd: filepath.Join(at, "initrd.cpio")}, nil
}

// tail is the last n bytes of b, from the start of a line if there is one.
func tail(b []byte, n int) []byte {
	if len(b) <= n {
		return b
	}
	b = b[len(b)-n:]
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		b = b[i+1:]
	}
	return b
}
