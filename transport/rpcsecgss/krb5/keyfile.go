package krb5

import (
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
	var kt *keytab.Keytab
	if err := guarded(func() (err error) { kt, err = keytab.Load(k.path); return err }); err != nil {
		return nil, fmt.Errorf("keytab %s: %w", k.path, err)
	}
	k.kt, k.time, k.size = kt, st.ModTime(), st.Size()
	return kt, nil
}
