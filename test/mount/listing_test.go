package mount

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
)

// procCounts counts the calls that a server gets, by NFSv3 procedure.
type procCounts struct {
	mu sync.Mutex
	n  map[uint32]int
}

func (p *procCounts) faults() *nfsd.Faults {
	return &nfsd.Faults{Before: func(_ context.Context, e nfsd.Event) nfsd.Action {
		if e.Prog == wire.NFSProgram {
			p.mu.Lock()
			p.n[e.Proc]++
			p.mu.Unlock()
		}
		return nfsd.Proceed
	}}
}

// take returns the counts since it was called last.
func (p *procCounts) take() map[uint32]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.n
	p.n = map[uint32]int{}
	return n
}

// TestListingCosts: to read a directory costs one ACCESS, by which opendir sees
// the rights and whether the directory has changed, and one READDIRPLUS. No name
// is looked up for it, whether anything may be cached or not and whoever changes
// the directory. Where attributes may be cached, ls -l is answered from what
// READDIRPLUS has said.
func TestListingCosts(t *testing.T) {
	const files = 50
	for _, c := range []struct {
		words  string
		cached bool
	}{{"actimeo=600", true}, {"noac", false}, {"actimeo=0", false}} {
		t.Run(c.words, func(t *testing.T) {
			p := &procCounts{n: map[uint32]int{}}
			s := startServer(t, serverOptions{faults: p.faults()})
			for k := range files {
				if err := os.WriteFile(filepath.Join(s.export, fmt.Sprint("file", k)), []byte("x"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			m := s.mount(t, "tcp", c.words)
			for round := range 4 {
				p.take()
				dir, err := os.Open(m.Dir)
				if err != nil {
					t.Fatal(err)
				}
				names, err := dir.Readdirnames(-1)
				if err != nil || len(names) != files+2*round {
					t.Fatalf("%d names: %v", len(names), err)
				}
				listing := p.take()
				for _, name := range names {
					if _, err := os.Lstat(filepath.Join(m.Dir, name)); err != nil {
						t.Error(err)
					}
				}
				attrs := p.take()
				if err := dir.Close(); err != nil {
					t.Error(err)
				}
				if want := map[uint32]int{wire.ProcAccess: 1, wire.ProcReadDirPlus: 1}; !maps.Equal(listing, want) {
					t.Errorf("round %d: calls by procedure %v, want %v", round, listing, want)
				}
				if c.cached && len(attrs) > 0 || !c.cached && attrs[wire.ProcGetAttr] != len(names) {
					t.Errorf("round %d: the attributes of %d files cost calls by procedure %v", round, len(names), attrs)
				}
				// The directory is changed here, and by another client.
				if err := os.WriteFile(filepath.Join(m.Dir, fmt.Sprint("here", round)), nil, 0o644); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(s.export, fmt.Sprint("elsewhere", round)), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
