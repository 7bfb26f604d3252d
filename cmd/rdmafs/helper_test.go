package main

import (
	"slices"
	"strings"
	"testing"
)

// TestHelper: what mount(8) and umount(8) call their helpers with, in the order in which
// util-linux gives it.
func TestHelper(t *testing.T) {
	for _, c := range []struct {
		line, args, namespace string
	}{
		{"/sbin/mount.rdmafs s:/x /mnt -o rw,port=1", "mount s:/x /mnt -o rw,port=1", ""},
		{"/sbin/mount.fuse.rdmafs s:/x /mnt -s -v -o ro -t fuse.rdmafs", "mount s:/x /mnt -o ro -o sloppy --verbose", ""},
		{"mount.rdmafs s:/x /mnt -sfnv -N /proc/7/ns/mnt -o rw", "mount s:/x /mnt -o rw -o sloppy --fake --verbose", "/proc/7/ns/mnt"},
		{"mount.rdmafs -r s:/x /mnt", "mount s:/x /mnt -o ro", ""},
		{"umount.fuse.rdmafs /mnt -n -l -f -v -r -t fuse.rdmafs", "umount /mnt --force --lazy", ""},
		{"umount.rdmafs /mnt -N /proc/7/ns/mnt", "umount /mnt", "/proc/7/ns/mnt"},
	} {
		line := strings.Fields(c.line)
		name := line[0][strings.LastIndex(line[0], "/")+1:]
		got, err := helpers[name](line[1:])
		if err != nil || strings.Join(got.args, " ") != c.args || got.namespace != c.namespace {
			t.Errorf("%s: %+v, %v", c.line, got, err)
		}
		if err == nil && got.args[got.dir] != "/mnt" {
			t.Errorf("%s: the mount point is argument %d", c.line, got.dir)
		}
	}
	for _, bad := range []string{"mount.rdmafs s:/x", "mount.rdmafs s:/x /mnt --frobnicate", "umount.rdmafs", "umount.rdmafs /a /b"} {
		line := strings.Fields(bad)
		if _, err := asHelper(line[0], line[1:]); err == nil || !strings.Contains(err.Error(), "mount(8)") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	args := []string{"status", "/mnt"}
	if got, err := asHelper("/usr/bin/rdmafs", args); err != nil || !slices.Equal(got, args) {
		t.Errorf("rdmafs itself: %q, %v", got, err)
	}
}
