package krb5

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestDamagedKeytab: a keytab that is cut anywhere, as one is that is being written, is used as far as it is whole or refused,
// and what is said of it has no byte of its keys.
func TestDamagedKeytab(t *testing.T) {
	kt, _ := testKeytab(t)
	whole, err := kt.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	secret := kt.Entries[0].Key.KeyValue
	if !bytes.Contains(whole, secret) {
		t.Fatal("the test does not find the key in its keytab")
	}
	path := filepath.Join(t.TempDir(), "keytab")
	refused := 0
	for n := range whole {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		k := keyFile{path: path}
		kt, err := k.load()
		if (kt == nil) != (err != nil) {
			t.Fatalf("%d bytes: %v, %v", n, kt, err)
		}
		if err == nil {
			continue
		}
		refused++
		for i := range len(secret) - 4 {
			if bytes.Contains([]byte(err.Error()), secret[i:i+4]) {
				t.Fatalf("%d bytes: the error has bytes of a key: %q", n, err)
			}
		}
	}
	if refused < len(secret) {
		t.Errorf("%d of %d are refused", refused, len(whole))
	}
	if err := os.Truncate(path, maxKeytab+1); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, t.TempDir(), "/dev/zero"} {
		if _, err := (&keyFile{path: path}).load(); err == nil {
			t.Errorf("%s was read", path)
		}
	}
}

// FuzzKeytab: a file that is no keytab is an error, and none panics or has an entry that is larger than the file.
func FuzzKeytab(f *testing.F) {
	kt, _ := testKeytab(f)
	whole, err := kt.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Add([]byte{5, 2, 0x80, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{5, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		kt, err := parseKeytab(b)
		if err != nil {
			return
		}
		n := 0
		for _, e := range kt.Entries {
			n += len(e.Key.KeyValue)
		}
		if n > len(b) {
			t.Errorf("keys of %d bytes in a file of %d", n, len(b))
		}
	})
}
