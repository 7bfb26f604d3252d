package krb5

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jcmturner/gokrb5/v8/keytab"
)

// keyFile is a keytab and the file it was read from.
type keyFile struct {
	path string

	mu   sync.Mutex
	kt   *keytab.Keytab
	time time.Time
	size int64
}

// maxKeytab bounds what is read of one: those of large machines have some hundred keys of 100 bytes.
const maxKeytab = 4 << 20

// load reads the file if it has changed since it was read. A keytab is not modified once
// it was returned.
func (k *keyFile) load() (*keytab.Keytab, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	st, err := os.Stat(k.path)
	if err != nil {
		return nil, err
	}
	if k.kt != nil && st.ModTime().Equal(k.time) && st.Size() == k.size {
		return k.kt, nil
	}
	switch {
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("keytab %s: it is no regular file", k.path)
	case st.Size() > maxKeytab:
		return nil, fmt.Errorf("keytab %s: it has more than %d bytes", k.path, maxKeytab)
	}
	b, err := os.ReadFile(k.path)
	if err != nil {
		return nil, err
	}
	kt, err := parseKeytab(b)
	if err != nil {
		return nil, fmt.Errorf("keytab %s: %w", k.path, err)
	}
	k.kt, k.time, k.size = kt, st.ModTime(), st.Size()
	return kt, nil
}

// errKeytab says no more: the errors of gokrb5 have the file's bytes in them, keys and all, and errors are logged.
var errKeytab = errors.New("it is not a keytab of version 1 or 2, or it is cut off")

func parseKeytab(b []byte) (*keytab.Keytab, error) {
	kt := new(keytab.Keytab)
	if guarded(func() error { return kt.Unmarshal(b) }) != nil {
		return nil, errKeytab
	}
	return kt, nil
}
