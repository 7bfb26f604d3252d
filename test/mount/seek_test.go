package mount

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSeekInDirectory: seekdir(3) to any place of a directory of 4,000 names
// that was listed asks the server for nothing, and what follows there is what
// followed before.
func TestSeekInDirectory(t *testing.T) {
	s := startServer(t, serverOptions{})
	for k := range 4000 {
		if err := os.WriteFile(filepath.Join(s.export, fmt.Sprintf("file%05d", k)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := Mount(t, s.source(), Options{Words: s.words("tcp", "")})
	d, err := os.Open(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	fd := int(d.Fd())
	buf := make([]byte, 32<<10) // as libc's
	type entry struct {
		name string
		off  int64
	}
	read := func() (all []entry) {
		n, err := unix.Getdents(fd, buf)
		if err != nil {
			t.Fatal(err)
		}
		for b := buf[:n]; len(b) > 0; b = b[binary.NativeEndian.Uint16(b[16:]):] { // struct linux_dirent64
			name, _, _ := bytes.Cut(b[19:], []byte{0})
			all = append(all, entry{string(name), int64(binary.NativeEndian.Uint64(b[8:]))})
		}
		return all
	}
	var all []entry
	for {
		l := read()
		if len(l) == 0 {
			break
		}
		all = append(all, l...)
	}
	if len(all) != 4002 {
		t.Fatalf("%d entries", len(all))
	}
	before := m.Stats(t).Calls
	r := rand.New(rand.NewPCG(1, 2))
	const seeks = 500
	for range seeks {
		k := r.IntN(len(all) - 1)
		if _, err := unix.Seek(fd, all[k].off, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		l := read()
		if len(l) == 0 {
			t.Fatalf("nothing behind entry %d", k)
		}
		for n, e := range l {
			if e != all[k+1+n] {
				t.Fatalf("entry %d behind %d is %+v, not %+v", n, k, e, all[k+1+n])
			}
		}
	}
	if n := m.Stats(t).Calls - before; n > seeks/10 {
		t.Errorf("%d calls for %d seeks", n, seeks)
	}
}
