package mount

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// relay is a further address of a server. It passes connections on.
type relay struct {
	ln  net.Listener
	all sync.WaitGroup

	mu      sync.Mutex
	taken   int
	opened  []net.Conn
	arrived chan struct{} // closed and replaced with each connection
	closed  bool
}

func newRelay(t *testing.T, at string, to netip.AddrPort) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", fmt.Sprintf("%s:%d", at, to.Port()))
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{ln: ln, arrived: make(chan struct{})}
	r.all.Go(func() { r.runAccept(to) })
	t.Cleanup(r.close)
	return r
}

func (r *relay) runAccept(to netip.AddrPort) {
	for {
		c, err := r.ln.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", to.String())
		r.mu.Lock()
		if err != nil || r.closed {
			r.mu.Unlock()
			c.Close()
			continue
		}
		r.taken++
		close(r.arrived)
		r.arrived = make(chan struct{})
		r.opened = append(r.opened, c, s)
		r.all.Add(2)
		r.mu.Unlock()
		runPass := func(to, from net.Conn) {
			defer r.all.Done()
			_, _ = io.Copy(to, from) // until either side has ended
			to.Close()
			from.Close()
		}
		go runPass(c, s)
		go runPass(s, c)
	}
}

// await waits until n connections have been taken.
func (r *relay) await(t *testing.T, n int) {
	t.Helper()
	within(t, func() {
		for {
			r.mu.Lock()
			taken, arrived := r.taken, r.arrived
			r.mu.Unlock()
			if taken >= n {
				return
			}
			<-arrived
		}
	})
}

// close is the end of the address and of all its connections.
func (r *relay) close() {
	r.ln.Close()
	r.mu.Lock()
	r.closed = true
	for _, c := range r.opened {
		c.Close()
	}
	r.mu.Unlock()
	r.all.Wait()
}

// TestRemotePorts: connections are spread over the addresses of a server, and when one of them
// is gone those that are left do.
func TestRemotePorts(t *testing.T) {
	for _, proto := range []string{"rdma", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			s := startServer(t, serverOptions{})
			at := s.tcp
			if proto == "rdma" {
				at = s.rdma
			}
			second, third := newRelay(t, "127.0.0.2", at), newRelay(t, "127.0.0.3", at)
			words := "rdma=iwarp,nconnect=6,spread_reads,spread_writes,mountaddr=127.0.0.1,remoteports=127.0.0.2-127.0.0.3,localports=127.0.0.8~127.0.0.9"
			m := Mount(t, s.source(), Options{Words: s.words(proto, words)})
			use := func(round int) {
				var all sync.WaitGroup
				for n := range 24 {
					all.Go(func() {
						name := filepath.Join(m.Dir, fmt.Sprintf("%d.%d", round, n))
						data := make([]byte, 1<<20)
						data[n] = 1
						if err := os.WriteFile(name, data, 0o644); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
			}
			use(0)
			second.await(t, 3)
			third.await(t, 3)
			third.close()
			use(1)
			second.await(t, 4)
			m.Umount(t)
			for round := range 2 {
				for n := range 24 {
					b, err := os.ReadFile(filepath.Join(s.export, fmt.Sprintf("%d.%d", round, n)))
					if err != nil || len(b) != 1<<20 || b[n] != 1 {
						t.Errorf("file %d.%d has %d bytes, %v", round, n, len(b), err)
					}
				}
			}
		})
	}
}

// TestNoReadDirPlus: directories are listed by READDIR alone, and correctly.
func TestNoReadDirPlus(t *testing.T) {
	s := startServer(t, serverOptions{})
	for n := range 300 {
		if err := os.WriteFile(filepath.Join(s.export, fmt.Sprint("file", n)), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ word, lists, not string }{
		{"nordirplus", "READDIR", "READDIRPLUS"},
		{"rdirplus=none", "READDIR", "READDIRPLUS"},
		{"nordirplus,rdirplus", "READDIRPLUS", "READDIR"},
	} {
		m := s.mount(t, "tcp", c.word)
		l, err := os.ReadDir(m.Dir)
		if err != nil || len(l) != 300 {
			t.Errorf("%s: %d entries, %v", c.word, len(l), err)
		}
		for _, e := range l {
			if st, err := e.Info(); err != nil || st.Size() != 1 {
				t.Fatalf("%s: %s: %v", c.word, e.Name(), err)
			}
		}
		r := Command(t, nil, "stats", "--json", m.Dir)
		var report struct {
			Procedures []struct {
				Procedure string
				Calls     int
			}
		}
		if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil {
			t.Fatal(err)
		}
		calls := map[string]int{}
		for _, p := range report.Procedures {
			calls[p.Procedure] = p.Calls
		}
		if calls[c.lists] == 0 || calls[c.not] != 0 {
			t.Errorf("%s: %v", c.word, calls)
		}
		m.Umount(t)
	}
}
