package fs

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// expireHeader writes the message by the structures of the kernel's header.
const expireHeader = `
#include <linux/fuse.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
	struct { struct fuse_out_header h; struct fuse_notify_inval_entry_out e; char name[6]; } __attribute__((packed)) m;
	memset(&m, 0, sizeof m);
	m.h.len = sizeof m;
	m.h.error = FUSE_NOTIFY_INVAL_ENTRY;
	m.e.parent = 0x0102030405060708ULL;
	m.e.namelen = 5;
	m.e.flags = FUSE_EXPIRE_ONLY;
	memcpy(m.name, "names", 6);
	return fwrite(&m, sizeof m, 1, stdout) != 1;
}
`

func expireMessage() []byte { return appendExpireEntry(nil, 0x0102030405060708, "names") }

// TestExpireEntryBytes: the message, by hand, on machines whose least
// significant byte comes first.
func TestExpireEntryBytes(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("another order of bytes")
	}
	want := "" +
		"\x26\x00\x00\x00" + "\x03\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x08\x07\x06\x05\x04\x03\x02\x01" + "\x05\x00\x00\x00" + "\x01\x00\x00\x00" +
		"names\x00"
	if got := expireMessage(); string(got) != want {
		t.Errorf("%x, want %x", got, want)
	}
	if got := appendExpireEntry([]byte("before"), 0x0102030405060708, "names"); string(got) != "before"+want {
		t.Errorf("%x, want %x", got, "before"+want)
	}
}

// TestExpireEntryHeader: the same message as the kernel's header makes it.
func TestExpireEntryHeader(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	if b, err := os.ReadFile("/usr/include/linux/fuse.h"); err != nil || !bytes.Contains(b, []byte("FUSE_EXPIRE_ONLY")) {
		t.Skip("no header of Linux 6.2 or later")
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "m.c"), filepath.Join(dir, "m")
	if err := os.WriteFile(source, []byte(expireHeader), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := expireMessage(); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// TestNamesWithoutExpiry: a kernel that cannot be told that a name is valid no
// longer is told for none that it is valid.
func TestNamesWithoutExpiry(t *testing.T) {
	f := &FS{}
	if got := f.entryTTL(30e9); got != 0 {
		t.Errorf("valid for %v", got)
	}
	f.expires = true
	if got := f.entryTTL(30e9); got != 30e9 {
		t.Errorf("valid for %v with expiry, want 30s", got)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	k := NewKernel()
	k.attach(&FS{device: w})
	k.InvalidateEntry(nil, "name") // would panic if it looked any further
	w.Close()
	var b [1]byte
	if n, _ := r.Read(b[:]); n != 0 {
		t.Error("a notification was written")
	}
	r.Close()
}
