//go:build knfsd

package interop

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/mount"
	"github.com/rdmafs/rdmafs/test/posix"
	"github.com/rdmafs/rdmafs/test/randomops"
)

// TestMountVersion4LinuxServer mounts the Linux server with NFSv4.2, over TCP and over iWARP.
func TestMountVersion4LinuxServer(t *testing.T) {
	if mount.RandomOpsInside(t) {
		return
	}
	g := knfsd.StartTest(t, knfsd.Config{Network: knfsd.Tap, DiskMiB: 2048})
	mounted := func(t *testing.T, words string) *mount.Mounted {
		m := mount.Mount(t, g.GuestAddr().String()+":/export", mount.Options{Words: words, Wrapper: inNamespace(g)})
		endWithGuest(t, g, m)
		return m
	}
	for n, way := range tapWays[:2] {
		t.Run(way.name, func(t *testing.T) {
			guest(t, g, "cd /export && rm -rf -- * && chmod 1777 .")
			m := mounted(t, way.words+",vers=4.2")
			t.Run("posix", func(t *testing.T) {
				knfsd.NeedAll(t)
				posix.Run42(t, m.Dir, nil)
			})
			t.Run("ranges", func(t *testing.T) { ranges4(t, m.Dir) })
			t.Run("attributes", func(t *testing.T) { attributes4(t, m.Dir) })
			t.Run("lists", func(t *testing.T) { lists4(t, m.Dir) })
			m.Umount(t)
			t.Run("random", func(t *testing.T) {
				if way.name == "tcp" {
					knfsd.NeedAll(t)
				}
				guest(t, g, "cd /export && rm -rf -- * && chmod 755 .")
				m := mounted(t, way.words+",vers=4.2")
				local := mount.RandomOps(t, m.Dir, mount.RandomOpsOptions{Few: 1000, All: 20_000, Test: "TestMountVersion4LinuxServer"})
				m.Umount(t)
				// The other way, with the other version.
				if err := randomops.Same(mounted(t, tapWays[1-n].words).Dir, local); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// ranges4 makes holes and copies, of data that was not synced before.
func ranges4(t *testing.T, dir string) {
	const part = 256 << 10
	data := bytes.Repeat([]byte("sixteen bytes..."), 4*part/16)
	f, err := os.OpenFile(filepath.Join(dir, "ranges"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, part, part); err != nil {
		t.Fatal(err)
	}
	clear(data[part : 2*part])
	if hole, err := unix.Seek(int(f.Fd()), 0, unix.SEEK_HOLE); err != nil || hole != part {
		t.Errorf("the hole is at %d, want %d: %v", hole, part, err)
	}
	if behind, err := unix.Seek(int(f.Fd()), part, unix.SEEK_DATA); err != nil || behind != 2*part {
		t.Errorf("data behind the hole is at %d, want %d: %v", behind, 2*part, err)
	}
	if err := unix.Fallocate(int(f.Fd()), 0, 4*part, part); err != nil {
		t.Fatal(err)
	}
	data = append(data, make([]byte, part)...)
	copied := filepath.Join(dir, "copied")
	to, err := os.OpenFile(copied, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	// What the copy overwrites, and what stays in front of it.
	if _, err := to.Write(bytes.Repeat([]byte{7}, 2*part)); err != nil {
		t.Fatal(err)
	}
	want := append(bytes.Repeat([]byte{7}, part), data...)
	for from, at := int64(0), int64(part); from < int64(len(data)); {
		n, err := unix.CopyFileRange(int(f.Fd()), &from, int(to.Fd()), &at, len(data)-int(from), 0)
		if err != nil || n == 0 {
			t.Fatalf("copied %d of %d bytes: %v", n, len(data), err)
		}
	}
	for path, want := range map[string][]byte{f.Name(): data, copied: want} {
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what it must be: %d bytes, want %d: %v", path, len(got), len(want), err)
		}
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// attributes4 uses extended attributes.
func attributes4(t *testing.T, dir string) {
	path := filepath.Join(dir, "attributes")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	const name = "user.origin"
	if err := unix.Setxattr(path, name, []byte("elsewhere"), unix.XATTR_REPLACE); !errors.Is(err, unix.ENODATA) {
		t.Errorf("replacing what is not there: %v, want ENODATA", err)
	}
	large := bytes.Repeat([]byte("v"), 3000)
	for _, value := range [][]byte{[]byte("here"), {}, large} {
		if err := unix.Setxattr(path, name, value, 0); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(large)+1)
		if n, err := unix.Getxattr(path, name, got); err != nil || !bytes.Equal(got[:n], value) {
			t.Errorf("a value of %d bytes is read as %d: %v", len(value), n, err)
		}
	}
	if _, err := unix.Getxattr(path, name, make([]byte, 10)); !errors.Is(err, unix.ERANGE) {
		t.Errorf("read into 10 bytes: %v, want ERANGE", err)
	}
	list := make([]byte, 100)
	if n, err := unix.Listxattr(path, list); err != nil || string(list[:n]) != name+"\x00system.nfs4_acl\x00" {
		t.Errorf("the names are %q: %v", list[:max(n, 0)], err)
	}
	if err := unix.Removexattr(path, name); err != nil {
		t.Error(err)
	}
	if n, err := unix.Getxattr(path, name, nil); !errors.Is(err, unix.ENODATA) {
		t.Errorf("what was removed has %d bytes: %v, want ENODATA", n, err)
	}
	if err := os.Remove(path); err != nil {
		t.Error(err)
	}
}

// lists4 sets the access control list of a directory, which Linux maps to its own, and makes files that inherit it.
func lists4(t *testing.T, dir string) {
	const name = "system.nfs4_acl"
	d := filepath.Join(dir, "lists")
	if err := os.Mkdir(d, 0o755); err != nil {
		t.Fatal(err)
	}
	list := make([]byte, 100)
	if n, err := unix.Listxattr(d, list); err != nil || string(list[:n]) != name+"\x00" {
		t.Errorf("the names are %q: %v", list[:max(n, 0)], err)
	}
	if _, err := unix.Getxattr(d, "system.posix_acl_access", list); !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("a list of POSIX: %v, want EOPNOTSUPP", err)
	}
	// Allowed are, here and to what is made here (flags FILE_INHERIT and DIRECTORY_INHERIT): the owner everything, the
	// group to read and write, others to read.
	var acl []byte
	type entry struct {
		flag, mask uint32
		who        string
	}
	entries := []entry{{0, 0x1601ff, "OWNER@"}, {0x40, 0x1200a9, "GROUP@"}, {0, 0x1200a9, "EVERYONE@"},
		{3 | 8, 0x1601ff, "OWNER@"}, {3 | 8 | 0x40, 0x1200ef, "GROUP@"}, {3 | 8, 0x1200a9, "EVERYONE@"}}
	acl = binary.BigEndian.AppendUint32(acl, uint32(len(entries)))
	for _, e := range entries {
		for _, v := range []uint32{0, e.flag, e.mask, uint32(len(e.who))} {
			acl = binary.BigEndian.AppendUint32(acl, v)
		}
		acl = append(acl, e.who...)
		acl = append(acl, make([]byte, -len(e.who)&3)...)
	}
	if err := unix.Setxattr(d, name, acl, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(d, name, acl[:len(acl)-4], 0); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a list that is cut: %v, want EINVAL", err)
	}
	got := make([]byte, 4096)
	n, err := unix.Getxattr(d, name, got)
	if err != nil || n < 4 || binary.BigEndian.Uint32(got) < 6 {
		t.Errorf("the list is %x: %v", got[:max(n, 0)], err)
	}
	defer unix.Umask(unix.Umask(0o077))
	for _, flags := range []int{os.O_CREATE, os.O_CREATE | os.O_EXCL} {
		f, err := os.OpenFile(filepath.Join(d, fmt.Sprint("file", flags)), flags|os.O_RDWR, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		st, err := f.Stat()
		if err != nil || st.Mode().Perm() != 0o664 {
			t.Errorf("made with mode 0666, umask 077 and an inherited list: %v, %v", st.Mode(), err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(plain); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("made with umask 077 where nothing is inherited: %v, %v", st.Mode(), err)
	}
	for _, path := range []string{d, plain} {
		if err := os.RemoveAll(path); err != nil {
			t.Error(err)
		}
	}
}
