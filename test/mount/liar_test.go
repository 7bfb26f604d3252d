package mount

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/hostile"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/tcp"
)

// TestHostileResults: NFS results that make no sense, or a wrong one. What is
// read may be wrong then, as the server is believed, but the kernel and the
// daemon must take no harm, no call may hang, and truth is to be seen once it
// is told again.
func TestHostileResults(t *testing.T) { hostileResults(t, "vers=3", hostile.Lies()) }

// TestHostileResults4 is TestHostileResults with NFS version 4.2.
func TestHostileResults4(t *testing.T) { hostileResults(t, "vers=4.2", hostile.Lies4()) }

func hostileResults(t *testing.T, vers string, lies []hostile.Lie) {
	for _, lie := range lies {
		t.Run(lie.Name, func(t *testing.T) {
			s, l := startLiar(t)
			want := fill(t, s.export)
			m := s.mount(t, "tcp", "soft,timeo=10,noac,"+vers)
			l.Set(&lie)
			ended := make(chan struct{})
			go runUntil(ended, func() {
				r := rand.New(rand.NewPCG(18, 13))
				for i := range 150 {
					hostile.RandomOp(r, filepath.Join(m.Dir, fmt.Sprint("file", r.IntN(len(want)))), filepath.Join(m.Dir, fmt.Sprint("own", i)))
				}
			})
			// What waits for the server goes on when the lie ends.
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if lie.Waits {
				if err := l.Await(ctx, 6); err != nil {
					t.Errorf("no lie was told: %v", err)
				}
			} else {
				await(t, ctx, ended)
			}
			told := l.Set(nil)
			await(t, ctx, ended)
			if told == 0 {
				t.Error("no lie was told")
			}
			recovers(t, m)
			within(t, func() {
				for name, b := range want {
					if err := readBack(t, filepath.Join(m.Dir, name), b); err != nil {
						t.Errorf("when the server tells the truth again: %v", err)
					}
				}
			})
			Exercise(t, m.Dir)
		})
	}
}

// TestHostileMount: a server that lies from the first call on is mounted or
// refused, and what was mounted can be used or not, and be unmounted.
func TestHostileMount(t *testing.T) { hostileMount(t, "vers=3", hostile.Lies()) }

// TestHostileMount4 is TestHostileMount with NFS version 4, the highest that the server says it has.
func TestHostileMount4(t *testing.T) { hostileMount(t, "vers=4", hostile.Lies4()) }

func hostileMount(t *testing.T, vers string, lies []hostile.Lie) {
	var lie hostile.Lie
	for _, l := range lies {
		if l.Name == "fields" {
			lie = l
		}
	}
	lie.Seldom = false
	s, l := startLiar(t)
	fill(t, s.export)
	l.Set(&lie)
	mounted := 0
	within(t, func() {
		for range 12 {
			dir := t.TempDir()
			r := Command(t, nil, "mount", s.source(), dir, "-o", s.words("tcp", "soft,timeo=10,retrans=1,retry=0,"+vers))
			switch {
			case r.Code == 0:
				mounted++
				_, _ = os.ReadDir(dir)
				readSome(filepath.Join(dir, "file3"))
				Command(t, nil, "umount", "-f", dir)
			case r.Stderr == "":
				t.Errorf("exit code %d, and no word", r.Code)
			}
		}
	})
	if told := l.Set(nil); told == 0 {
		t.Error("no lie was told")
	}
	t.Logf("%d of 12 mounts succeeded", mounted)
	Exercise(t, s.mount(t, "tcp", vers).Dir)
}

// TestHostileTrickle: a server that delivers its answers one byte at a time, a
// long time apart, is one that does not answer: a soft mount gives up.
func TestHostileTrickle(t *testing.T) {
	tick := make(chan struct{})
	s, _ := startLiarOn(t, func(ln net.Listener) net.Listener { return &hostile.Trickle{Listener: ln, Tick: tick} })
	want := fill(t, s.export)
	// The mount itself needs answers: these bytes come as fast as they can.
	mounting, mountedUp := make(chan struct{}), make(chan struct{})
	go runUntil(mounting, func() {
		for {
			select {
			case tick <- struct{}{}:
			case <-mountedUp:
				return
			}
		}
	})
	m := s.mount(t, "tcp", "soft,timeo=5,retrans=1,noac")
	close(mountedUp)
	<-mounting
	within(t, func() {
		// Some bytes come, and never a reply.
		for range 3 {
			select {
			case tick <- struct{}{}:
			case <-time.After(time.Millisecond): // nobody writes at the moment
			}
			if _, err := os.Stat(filepath.Join(m.Dir, "file3")); !errors.Is(err, syscall.EIO) {
				t.Errorf("stat: %v, want EIO", err)
			}
		}
	})
	close(tick)
	recovers(t, m)
	within(t, func() {
		for name, b := range want {
			if err := readBack(t, filepath.Join(m.Dir, name), b); err != nil {
				t.Errorf("when the server answers again: %v", err)
			}
		}
	})
}

func await(t *testing.T, ctx context.Context, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatalf("the mount hangs for %v", patience)
	}
}

func startLiar(t *testing.T) (*server, *hostile.Liar) {
	t.Helper()
	return startLiarOn(t, func(ln net.Listener) net.Listener { return ln })
}

// startLiarOn is startLiar behind a listener of its own.
func startLiarOn(t *testing.T, on func(net.Listener) net.Listener) (*server, *hostile.Liar) {
	t.Helper()
	s := &server{export: t.TempDir()}
	var err error
	s.Server, err = nfsd.New(nfsd.Config{Exports: []nfsd.Export{{Dir: s.export, Squash: nfsd.SquashNone, Async: true}}, Versions: nfsd.V3 | nfsd.V41 | nfsd.V42})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.tcp = netip.MustParseAddrPort(ln.Addr().String())
	l := hostile.New(s.Handler(), 7)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go runLiar(ctx, on(ln), l, ended)
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			t.Errorf("lying server: %v", err)
		}
	})
	return s, l
}

func runLiar(ctx context.Context, ln net.Listener, h transport.Handler, ended chan<- error) {
	ended <- tcp.Serve(ctx, ln, h, tcp.ServerConfig{})
}
