package mount

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// mischief is what a proxy does to a connection.
type mischief struct {
	// least and most bound the byte of either direction at which it strikes.
	least, most int
	// strikes is how often it does so in all.
	strikes int
	// garble changes a byte; otherwise the connection is reset.
	garble bool
}

// proxy forwards TCP connections to one address, with mischief.
type proxy struct {
	ln net.Listener
	to netip.AddrPort
	wg sync.WaitGroup

	mu    sync.Mutex
	rand  *rand.Rand
	m     mischief
	open  map[*net.TCPConn]bool
	ended bool
	done  int
}

func startProxy(t *testing.T, to netip.AddrPort, m mischief) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{ln: ln, to: to, m: m, rand: rand.New(rand.NewPCG(4, 2)), open: map[*net.TCPConn]bool{}}
	p.wg.Go(p.runAccept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) port() uint16 { return netip.MustParseAddrPort(p.ln.Addr().String()).Port() }

func (p *proxy) close() {
	p.ln.Close()
	p.mu.Lock()
	p.ended = true
	for c := range p.open {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *proxy) runAccept() {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return
		}
		client := c.(*net.TCPConn)
		s, err := net.Dial("tcp", p.to.String())
		if err != nil {
			client.Close()
			continue
		}
		server := s.(*net.TCPConn)
		p.mu.Lock()
		if p.ended {
			client.Close()
			server.Close()
		}
		p.open[client], p.open[server] = true, true
		p.mu.Unlock()
		p.wg.Go(func() { p.runForward(client, server) })
		p.wg.Go(func() { p.runForward(server, client) })
	}
}

// next is after how many bytes to strike, or -1.
func (p *proxy) next() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done >= p.m.strikes {
		return -1
	}
	return p.m.least + p.rand.IntN(p.m.most-p.m.least)
}

func (p *proxy) struck() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// strike counts one, if there is one left.
func (p *proxy) strike() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done >= p.m.strikes {
		return false
	}
	p.done++
	return true
}

// runForward copies from one side to the other until either ends, or is ended.
func (p *proxy) runForward(from, to *net.TCPConn) {
	defer p.drop(from, to)
	buf := make([]byte, 64<<10)
	for left := p.next(); ; {
		n, err := from.Read(buf)
		if left >= 0 && n > left && p.strike() {
			if !p.m.garble {
				if _, err := to.Write(buf[:left]); err == nil {
					_ = from.SetLinger(0) // reset, do not end in order
					_ = to.SetLinger(0)
				}
				return
			}
			buf[left] ^= 0x10
			left = p.next() + n
		}
		if left >= 0 {
			left -= n
		}
		if _, werr := to.Write(buf[:n]); werr != nil || err == io.EOF {
			return
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) drop(a, b *net.TCPConn) {
	a.Close()
	b.Close()
	p.mu.Lock()
	delete(p.open, a)
	delete(p.open, b)
	p.mu.Unlock()
}

// TestBrokenStreams copies a tree over connections that are reset, or of which
// bytes change, anywhere in the stream: on a hard mount the copy must complete
// and be right. Only iWARP has a checksum to see changes by, if asked to; its
// set-up has none, so that is left alone.
func TestBrokenStreams(t *testing.T) {
	for _, c := range []struct {
		name, proto, words string
		m                  mischief
	}{
		{"reset, rdma", "rdma", "", mischief{least: 0, most: 1 << 20, strikes: 60}},
		{"reset, rdma, nconnect", "rdma", "nconnect=4", mischief{least: 0, most: 1 << 20, strikes: 60}},
		{"reset, tcp", "tcp", "", mischief{least: 0, most: 1 << 20, strikes: 60}},
		{"garbled, rdma", "rdma", "crc", mischief{least: 1 << 10, most: 1 << 20, strikes: 40, garble: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startServer(t, serverOptions{})
			to := s.tcp
			if c.proto == "rdma" {
				to = s.rdma
			}
			p := startProxy(t, to, c.m)
			words := fmt.Sprintf("proto=%s,port=%d,mountport=%d,timeo=20", c.proto, p.port(), s.tcp.Port())
			if c.words != "" {
				words += "," + c.words
			}
			var m *Mounted
			within(t, func() { m = mountRetrying(t, s.source(), words) })
			from := SourceTree(t)
			at := filepath.Join(m.Dir, "tree")
			within(t, func() { CopyTree(t, from, at, nil) })
			within(t, func() {
				// As often as it takes: past what the kernel keeps.
				for i := 0; p.struck() < c.m.strikes && i < 20; i++ {
					dropTree(t, at)
					SameTree(t, at, from)
				}
			})
			SameTree(t, filepath.Join(s.export, "tree"), from)
			if p.struck() == 0 {
				t.Error("no connection was harmed")
			}
			if rss := m.resident(t); rss > maxDaemon {
				t.Errorf("the daemon holds %d MiB", rss>>20)
			}
			t.Logf("%d connections harmed, %+v", p.struck(), m.Stats(t))
		})
	}
}

// TestGarbledUnseen changes bytes that no checksum covers. Anything may be read
// then, and any call fail, but no call may hang, nor the daemon end; on a
// stream left alone all is well again.
func TestGarbledUnseen(t *testing.T) {
	for _, proto := range []string{"rdma", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			s := startServer(t, serverOptions{})
			to := s.tcp
			if proto == "rdma" {
				to = s.rdma
			}
			p := startProxy(t, to, mischief{least: 64, most: 16 << 10, strikes: 150, garble: true})
			if err := os.CopyFS(filepath.Join(s.export, "tree"), os.DirFS(filepath.Join(SourceTree(t), "http"))); err != nil {
				t.Fatal(err)
			}
			var m *Mounted
			within(t, func() {
				m = mountRetrying(t, s.source(), fmt.Sprintf("proto=%s,port=%d,mountport=%d,soft,timeo=2,retrans=2,noac", proto, p.port(), s.tcp.Port()))
			})
			within(t, func() {
				for p.struck() < p.m.strikes {
					_ = filepath.WalkDir(m.Dir, func(path string, d os.DirEntry, err error) error {
						if err == nil && d.Type().IsRegular() && DropCache(path) == nil {
							readSome(path)
						}
						if p.struck() >= p.m.strikes {
							return filepath.SkipAll
						}
						return nil
					})
				}
			})
			recovers(t, m)
			Exercise(t, m.Dir)
		})
	}
}

// readSome reads the start of a file whose size may be a lie: os.ReadFile would
// make room for all of it.
func readSome(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = io.CopyN(io.Discard, f, 1<<20)
}

// mountRetrying mounts over a connection that may not last: mounting, unlike a
// mount, gives up at once.
func mountRetrying(t *testing.T, source, words string) *Mounted {
	dir := t.TempDir()
	var r Result
	for range 20 {
		if r = Command(t, nil, "mount", source, dir, "-o", "retry=0,"+words); r.Code == 0 {
			m := &Mounted{Dir: dir}
			t.Cleanup(func() { m.Umount(t) })
			return m
		}
	}
	t.Fatalf("20 attempts to mount failed, the last with %s", r.Stderr)
	return nil
}

// dropTree makes the kernel forget the pages of every file below dir.
func dropTree(t *testing.T, dir string) {
	t.Helper()
	for name := range Sums(t, dir) {
		if err := DropCache(filepath.Join(dir, name)); err != nil && err != unix.EINVAL {
			t.Fatal(err)
		}
	}
}
