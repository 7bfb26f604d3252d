package mount

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAppendOpenForLong: two clients that both keep a file open for appending,
// and have no attributes that they believe, do not overwrite what the other one
// has synced; what one of them appends stands in its own pages where it stands
// in the file.
func TestAppendOpenForLong(t *testing.T) {
	for _, way := range []struct {
		name  string
		flags int
		line  int // its least length
	}{
		{"lines", 0, 20},
		{"pages", 0, 9000}, // of which the kernel keeps those that are written whole
		{"several requests", 0, 1<<20 + 5000},
		{"direct", unix.O_DIRECT, 20},
	} {
		t.Run(way.name, func(t *testing.T) {
			s := startServer(t, serverOptions{})
			var files []*os.File
			for _, m := range []*Mounted{s.mount(t, "rdma", "actimeo=0"), s.mount(t, "tcp", "actimeo=0")} {
				f, err := os.OpenFile(filepath.Join(m.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_RDWR|way.flags, 0o644)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				files = append(files, f)
			}
			var want []byte
			for round := range 4 {
				for k := range 3 { // without a look at what the other one did
					line := content(round, way.line+round*7+k)
					_, err := files[k%2].Write(line)
					if err := errors.Join(err, files[k%2].Sync()); err != nil {
						t.Fatal(err)
					}
					want = append(want, line...)
				}
				for _, f := range files {
					// To ask for the size waits until the kernel has dropped what is not current.
					if st, err := f.Stat(); err != nil || st.Size() != int64(len(want)) {
						t.Fatalf("round %d: size %d, want %d; %v", round, st.Size(), len(want), err)
					}
					got := make([]byte, len(want)+1)
					if n, err := readAt(f, got, 0); err != nil || !bytes.Equal(got[:n], want) {
						t.Fatalf("round %d: %s reads %s; %v", round, f.Name(), firstDifference(got[:n], want), err)
					}
				}
			}
			if got, err := os.ReadFile(filepath.Join(s.export, "log")); err != nil || !bytes.Equal(got, want) {
				t.Errorf("the server has %s; %v", firstDifference(got, want), err)
			}
		})
	}
}
