package rdmafs

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/test/hostile"
	"github.com/rdmafs/rdmafs/test/must"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/transport"
)

// TestHostileServer: whatever a server says, no name that it lists leads out of
// the directory, nothing panics, and the truth is seen once it is told again.
func TestHostileServer(t *testing.T) {
	for _, lie := range hostile.Lies() {
		if lie.Waits {
			continue
		}
		t.Run(lie.Name, func(t *testing.T) {
			liar := hostile.New(nil, 7)
			var once sync.Once // each transport wraps it
			v := serve(t, func(c *nfsd.Config) {
				c.Wrap = func(h transport.Handler) transport.Handler {
					once.Do(func() { liar.Handler = h })
					return liar
				}
			})
			names := v.tree(t)
			f := must.Get[*FS](t)(Open(context.Background(), loopback, v.options(t, "tcp", "noac,soft")))
			liar.Set(&lie)
			for n := range 15 {
				for _, name := range names {
					if info, err := f.Stat(name); err == nil && info.Size() < 0 {
						t.Errorf("%s has %d bytes", name, info.Size())
					}
				}
				d, err := f.OpenFile(".", 0, 0)
				if err != nil {
					continue
				}
				for range 3 {
					list, err := d.ReadDir(20)
					for _, e := range list {
						if !valid(e.Name()) || strings.Contains(e.Name(), "/") {
							t.Errorf("it lists %q", e.Name())
						}
						_, _ = e.Info()
					}
					if err != nil {
						break
					}
				}
				_ = d.Close()
				own := fmt.Sprint("own", n)
				_ = f.Mkdir(own, 0o700)
				_ = f.WriteFile(own+"/file", []byte(own), 0o600)
				_, _ = f.ReadFile(own + "/file")
				_ = f.Rename(own+"/file", own+"/moved")
				_ = f.Symlink("..", own+"/link")
				_, _ = f.Stat(own + "/link/" + own + "/moved")
				_ = f.Remove(own)
			}
			if liar.Set(nil) == 0 {
				t.Error("no lie was told")
			}
			for _, name := range []string{"a", "d/b", "d/e/c"} {
				if got := must.Get[[]byte](t)(f.ReadFile(name)); string(got) != v.content(t, name) {
					t.Errorf("%s is another when the truth is told", name)
				}
			}
			if err := f.Close(context.Background()); err != nil {
				t.Log(err) // of writes that the server refused
			}
		})
	}
}
