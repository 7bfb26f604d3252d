package mount

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestManyAtOnce: more readers and writers at once than there is memory for;
// each gets through, and with its own bytes.
func TestManyAtOnce(t *testing.T) {
	const workers, size = 36, 4 << 20 // in all above the pool of buffers
	for _, proto := range []string{"rdma", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			s := startServer(t, serverOptions{})
			m := s.mount(t, proto, "nconnect=2")
			ended := make(chan error)
			work := func(k int) error {
				name := filepath.Join(m.Dir, fmt.Sprint("f", k))
				want := content(k, size+k)
				if err := os.WriteFile(name, want, 0o644); err != nil {
					return err
				}
				// Made on the server, so not in the kernel's pages.
				theirs := filepath.Join(s.export, fmt.Sprint("g", k))
				if err := os.WriteFile(theirs, want, 0o644); err != nil {
					return err
				}
				got, err := os.ReadFile(filepath.Join(m.Dir, filepath.Base(theirs)))
				if err == nil && !bytes.Equal(got, want) {
					err = fmt.Errorf("read %s", firstDifference(got, want))
				}
				written, werr := os.ReadFile(filepath.Join(s.export, filepath.Base(name)))
				if werr == nil && !bytes.Equal(written, want) {
					werr = fmt.Errorf("wrote %s", firstDifference(written, want))
				}
				return errors.Join(err, werr, os.Remove(name), os.Remove(theirs))
			}
			for k := range workers {
				go func() { ended <- work(k) }()
			}
			for range workers {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
		})
	}
}
