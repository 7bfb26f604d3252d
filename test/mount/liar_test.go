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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/tcp"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// liar passes NFS calls on to a server, and while armed has lie change the
// results of some.
type liar struct {
	transport.Handler
	lie atomic.Pointer[lie]

	mu   sync.Mutex
	rand *rand.Rand
	told int
}

// lie changes the results of a call; they are nil for READ, whose count is
// changed without it.
type lie func(r *rand.Rand, proc uint32, res wire.Message)

// results is where those of a procedure that liars know are decoded.
func results(proc uint32) wire.Message {
	switch proc {
	case wire.ProcGetAttr:
		return &wire.GetAttrRes{}
	case wire.ProcLookup:
		return &wire.LookupRes{}
	case wire.ProcAccess:
		return &wire.AccessRes{}
	case wire.ProcReadDirPlus:
		return &wire.ReadDirRes{Plus: true}
	case wire.ProcWrite:
		return &wire.WriteRes{}
	case wire.ProcCreate:
		return &wire.MadeRes{}
	}
	return nil
}

func (l *liar) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	start := len(q.Reply.Bytes())
	stat := l.Handler.Serve(ctx, q)
	f := l.lie.Load()
	if f == nil || q.Prog != nfsProgram || stat != transport.Success {
		return stat
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rand.IntN(3) != 0 {
		return stat
	}
	b := q.Reply.Bytes()
	if q.Proc == wire.ProcRead {
		// status, attributes (with a word that says they are there), count, end
		if n := len(b) - 12; n >= start+92 {
			(*f)(l.rand, q.Proc, nil)
			q.Reply.SetUint32(n, []uint32{0, 1, 1 << 31, 1<<32 - 1, l.rand.Uint32()}[l.rand.IntN(5)])
			l.told++
		}
		return stat
	}
	if res := results(q.Proc); res != nil {
		var r xdr.Reader
		r.Reset(append([]byte(nil), b[start:]...), nil, nil)
		if res.Parse(&r); r.End() == nil {
			(*f)(l.rand, q.Proc, res)
			q.Reply.Truncate(start)
			res.Append(q.Reply)
			l.told++
		}
	}
	return stat
}

// The lies.

// attrs has f change every attribute in res.
func attrs(res wire.Message, f func(*wire.Attr)) {
	switch m := res.(type) {
	case *wire.GetAttrRes:
		f(&m.Attr)
	case *wire.LookupRes:
		f(&m.Attr.Attr)
		f(&m.Dir.Attr)
	case *wire.AccessRes:
		f(&m.Attr.Attr)
	case *wire.ReadDirRes:
		f(&m.Dir.Attr)
		for i := range m.Entries {
			f(&m.Entries[i].Attr.Attr)
		}
	case *wire.WriteRes:
		f(&m.Wcc.After.Attr)
	case *wire.MadeRes:
		f(&m.Attr.Attr)
	}
}

func absurdNumbers(r *rand.Rand, _ uint32, res wire.Message) {
	attrs(res, func(a *wire.Attr) {
		big := []uint64{0, 1<<63 - 1, 1 << 63, 1<<64 - 1, r.Uint64()}
		a.Size, a.Used = big[r.IntN(len(big))], big[r.IntN(len(big))]
		a.FileID, a.FSID = big[r.IntN(len(big))], big[r.IntN(len(big))]
		a.Nlink, a.Mode, a.UID = r.Uint32(), r.Uint32(), 1<<32-1
		a.Mtime, a.Ctime = wire.Time{Sec: r.Uint32(), Nsec: 1<<32 - 1}, wire.Time{Sec: 1<<32 - 1, Nsec: r.Uint32()}
	})
}

func otherTypes(r *rand.Rand, _ uint32, res wire.Message) {
	attrs(res, func(a *wire.Attr) { a.Type = nfsclient.FileType(1 + r.IntN(7)) })
}

func otherHandles(r *rand.Rand, _ uint32, res wire.Message) {
	handle := func(h *nfsclient.Handle) {
		*h = []nfsclient.Handle{"", "x", *h + *h, nfsclient.Handle(strings.Repeat("h", 1000)), *h}[r.IntN(5)]
	}
	switch m := res.(type) {
	case *wire.LookupRes:
		handle(&m.Handle)
	case *wire.ReadDirRes:
		same := r.IntN(2) == 0
		for i := range m.Entries {
			if same {
				m.Entries[i].Handle = m.Entries[0].Handle
			} else {
				handle(&m.Entries[i].Handle.Handle)
			}
		}
	case *wire.MadeRes:
		handle(&m.Handle.Handle)
	}
}

func otherNames(r *rand.Rand, _ uint32, res wire.Message) {
	m, ok := res.(*wire.ReadDirRes)
	if !ok {
		return
	}
	names := []string{"", ".", "..", "a/b", "/", "a\x00", "\xff\xfe", "\n", strings.Repeat("n", 1024), strings.Repeat("n", 300), "file1"}
	for i := range m.Entries {
		m.Entries[i].Name = names[r.IntN(len(names))]
	}
}

func otherCookies(r *rand.Rand, _ uint32, res wire.Message) {
	if m, ok := res.(*wire.ReadDirRes); ok {
		m.EOF = r.IntN(4) == 0
		for i := range m.Entries {
			m.Entries[i].Cookie = []uint64{0, 1, uint64(i), 1<<64 - 1, m.Entries[i].Cookie}[r.IntN(5)]
		}
	}
}

func otherCounts(r *rand.Rand, _ uint32, res wire.Message) {
	if m, ok := res.(*wire.WriteRes); ok {
		m.Count = []uint32{0, 1, m.Count + 1, m.Count - 1, 1<<32 - 1}[r.IntN(5)]
		m.Committed = nfsclient.Stable(r.IntN(4))
		m.Verifier[0] = byte(r.IntN(2))
	}
}

// TestHostileResults: NFS results that make no sense, or a wrong one. What is
// read may be wrong then, as the server is believed, but the kernel and the
// daemon must take no harm, no call may hang, and truth is to be seen once it
// is told again.
func TestHostileResults(t *testing.T) {
	for _, c := range []struct {
		name string
		do   lie
	}{
		{"numbers", absurdNumbers}, {"types", otherTypes}, {"handles", otherHandles},
		{"names", otherNames}, {"cookies", otherCookies}, {"counts", otherCounts},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, l := startLiar(t)
			want := fill(t, s.export)
			m := s.mount(t, "tcp", "soft,timeo=10,noac")
			r := rand.New(rand.NewPCG(18, 13))
			l.lie.Store(&c.do)
			within(t, func() {
				for i := range 150 {
					tease(r, m.Dir, len(want), i)
				}
			})
			l.lie.Store(nil)
			recovers(t, m)
			within(t, func() {
				for name, b := range want {
					if err := readBack(t, filepath.Join(m.Dir, name), b); err != nil {
						t.Errorf("when the server tells the truth again: %v", err)
					}
				}
			})
			Exercise(t, m.Dir)
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.told == 0 {
				t.Error("no lie was told")
			}
		})
	}
}

// tease is poke for a server of which nothing may be expected.
func tease(r *rand.Rand, dir string, files, i int) {
	name := filepath.Join(dir, fmt.Sprint("file", r.IntN(files)))
	own := filepath.Join(dir, fmt.Sprint("own", i))
	switch r.IntN(4) {
	case 0:
		_, _ = os.Lstat(name)
		_, _ = os.Readlink(name)
	case 1:
		if d, err := os.Open(dir); err == nil {
			_, _ = d.Readdirnames(5000) // a listing may have no end that we would see
			_ = d.Close()
		}
	case 2:
		// It may pass for a FIFO, of which opening would wait for a writer.
		if f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
			_, _ = f.ReadAt(make([]byte, 300_000), r.Int64N(1<<20))
			_, _ = f.ReadAt(make([]byte, 5000), 1<<63-8192)
			_ = f.Close()
		}
	default:
		if f, err := os.OpenFile(own, os.O_WRONLY|os.O_CREATE|syscall.O_NONBLOCK, 0o600); err == nil {
			_, _ = f.Write(make([]byte, r.IntN(200_000)))
			_ = f.Close()
		}
		_ = os.Truncate(own, int64(r.IntN(1000)))
		_ = os.Remove(own)
	}
}

func startLiar(t *testing.T) (*server, *liar) {
	t.Helper()
	s := &server{export: t.TempDir()}
	var err error
	s.Server, err = nfsd.New(nfsd.Config{Exports: []nfsd.Export{{Dir: s.export, Squash: nfsd.SquashNone, Async: true}}})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.tcp = netip.MustParseAddrPort(ln.Addr().String())
	l := &liar{Handler: s.Handler(), rand: rand.New(rand.NewPCG(7, 7))}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go runLiar(ctx, ln, l, ended)
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			t.Errorf("lying server: %v", err)
		}
	})
	return s, l
}

func runLiar(ctx context.Context, ln net.Listener, l *liar, ended chan<- error) {
	ended <- tcp.Serve(ctx, ln, l, tcp.ServerConfig{})
}
