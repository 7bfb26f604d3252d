package cache

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
)

func direct(m OpenMode) OpenMode { m.Direct = true; return m }

// ways are what writes go by.
func ways() map[string]func(*Config) OpenMode {
	return map[string]func(*Config) OpenMode{
		"buffered": func(*Config) OpenMode { return rw },
		"direct":   func(*Config) OpenMode { return direct(rw) },
		"noac":     func(c *Config) OpenMode { c.NoAC = true; return rw },
	}
}

// TestAppendBehindAnother: what another machine has appended is not overwritten
// once attributes have expired, and the kernel is told to look again.
func TestAppendBehindAnother(t *testing.T) {
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			srv := newFake(t)
			time := newClock()
			cfg := testConfig()
			cfg.Now = time.now
			mode := way(&cfg)
			k := newKernel()
			cfg.Kernel = k
			c := newCache(t, srv, cfg)
			create(t, c, "log").Release()
			f, _ := open(t, c, "log", mode)
			defer f.Release()
			add := func(line string, kernel int64) {
				t.Helper()
				if n, err := f.Append(ctx, []byte(line), kernel); n != len(line) || err != nil {
					t.Fatalf("Append of %q: %d, %v", line, n, err)
				}
				check(t, f.Fsync(ctx))
			}
			add("ours\n", 0)
			srv.foreign("log", []byte("ours\nanother's\n"))
			time.advance(2 * cfg.AcRegMax)
			add("more\n", 5)
			<-k.inodes
			add("again\n", 10)
			if got, want := string(srv.content("log")), "ours\nanother's\nmore\nagain\n"; got != want {
				t.Errorf("the server has %q, want %q", got, want)
			}
		})
	}
}

// TestAppendAsksOnlyWhenExpired: while attributes are believed, an append costs
// no GETATTR, and neither does one in a stream of our own.
func TestAppendAsksOnlyWhenExpired(t *testing.T) {
	srv := newFake(t)
	c := newCache(t, srv, testConfig())
	f := create(t, c, "log")
	defer f.Release()
	for k := range 1000 {
		_, err := f.Append(ctx, make([]byte, 1000), int64(k)*1000)
		check(t, err)
	}
	check(t, f.Fsync(ctx))
	if n := srv.count("GETATTR"); n != 0 {
		t.Errorf("%d GETATTR", n)
	}
}

// TestOwnAppendsBesideOneAnother: those who append at once do not overwrite one
// another, wherever the kernel takes the end to be.
func TestOwnAppendsBesideOneAnother(t *testing.T) {
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			const writers, each = 4, 30
			srv := newFake(t)
			cfg := testConfig()
			cfg.WSize = 4096
			mode := way(&cfg)
			c := newCache(t, srv, cfg)
			create(t, c, "log").Release()
			var all sync.WaitGroup
			for w := range writers {
				all.Go(func() {
					f, _ := open(t, c, "log", mode)
					defer f.Release()
					for k := range each {
						line := fmt.Appendf(nil, "%d %d\n", w, k)
						if n, err := f.Append(ctx, line, 0); n != len(line) || err != nil {
							t.Errorf("Append: %d, %v", n, err)
						}
					}
					if err := f.Fsync(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			lines := bytes.Split(srv.content("log"), []byte("\n"))
			seen := map[string]bool{}
			for _, l := range lines {
				seen[string(l)] = true
			}
			for w := range writers {
				for k := range each {
					if l := fmt.Sprintf("%d %d", w, k); !seen[l] {
						t.Errorf("line %q is gone", l)
					}
				}
			}
		})
	}
}
