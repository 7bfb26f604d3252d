package garbage

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/session"
	"github.com/rdmafs/rdmafs/internal/source"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/testlog"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// serverEnv makes the test binary a server of the directory that it names.
const serverEnv = "RDMAFS_GARBAGE_SERVER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverEnv); dir != "" {
		serve(dir)
		return
	}
	os.Exit(m.Run())
}

// serve says where it listens, and then, for each line that it reads, how much it has
// allocated since the line before.
func serve(dir string) {
	fail := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	s, err := nfsd.New(nfsd.Config{Exports: []nfsd.Export{{Dir: dir, Path: "/export", Squash: nfsd.SquashNone, Async: true}}})
	fail(err)
	tcp, err := s.ListenTCP("127.0.0.1:0")
	fail(err)
	rdma, err := s.ListenRDMA(iwarp.Open(iwarp.Config{}), "127.0.0.1:0", rpcrdma.ServerConfig{})
	fail(err)
	fmt.Println(tcp.Port(), rdma.Port())
	var last, now runtime.MemStats
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		runtime.ReadMemStats(&now)
		fmt.Println(now.Mallocs-last.Mallocs, now.TotalAlloc-last.TotalAlloc)
		last = now
	}
}

// rig is a session over one transport with a file of fileSize bytes.
type rig struct {
	t       testing.TB
	session *session.Session
	cache   *cache.Cache
	inode   *cache.Inode
	in      io.Writer // of the server
	out     *bufio.Reader
}

const fileSize = 32 << 20

var (
	networks = []string{"iwarp", "tcp"}
	// ctx could end, as that of a FUSE request.
	ctx, _ = context.WithCancel(context.Background())
)

func start(t testing.TB, network string) *rig {
	t.Helper()
	r := startWith(t, network, nil)
	e, err := r.cache.Lookup(ctx, session.OwnCred(), r.cache.Root(), "file")
	r.check(err)
	r.inode = e.Inode
	t.Cleanup(func() { r.cache.Forget(e.Inode, 1) })
	return r
}

// startWith starts a server and a session with it; kernel may be nil.
func startWith(t testing.TB, network string, kernel cache.Kernel) *rig {
	t.Helper()
	r := &rig{t: t}
	dir := t.TempDir()
	r.check(os.Chmod(dir, 0o777))
	r.check(os.WriteFile(dir+"/file", make([]byte, fileSize), 0o666))
	exe, err := os.Executable()
	r.check(err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), serverEnv+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	r.check(err)
	out, err := cmd.StdoutPipe()
	r.check(err)
	r.check(cmd.Start())
	t.Cleanup(func() {
		in.Close()
		r.check(cmd.Wait())
	})
	r.in, r.out = in, bufio.NewReader(out)
	var tcp, rdma int
	_, err = fmt.Fscanln(r.out, &tcp, &rdma)
	r.check(err)

	words := fmt.Sprintf("proto=tcp,port=%d,mountport=%d,nlmport=%d", tcp, tcp, tcp)
	if network == "iwarp" {
		words = fmt.Sprintf("proto=rdma,rdma=iwarp,port=%d,mountport=%d,nlmport=%d", rdma, tcp, tcp)
	}
	o, err := options.Parse(strings.Split(words+",actimeo=3600", ","))
	r.check(err)
	src, err := source.Parse("127.0.0.1:/export")
	r.check(err)
	r.session, err = session.Open(ctx, session.Config{Source: src, Options: o, Log: testlog.New(t)}, kernel)
	r.check(err)
	t.Cleanup(func() { r.check(r.session.Close(ctx)) })
	r.cache = r.session.Cache()
	return r
}

func (r *rig) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// open opens the file, and closes it when the test ends.
func (r *rig) open(t testing.TB, mode cache.OpenMode) *cache.File {
	t.Helper()
	f, _, err := r.cache.Open(ctx, session.OwnCred(), r.inode, mode)
	r.check(err)
	t.Cleanup(f.Release)
	return f
}

// warm makes so many calls that each entry of the connection's send queue was used for a
// Send once, when it allocates what it keeps. A READ takes two, and a LOOKUP one.
func (r *rig) warm(t testing.TB) {
	f := r.open(t, cache.OpenMode{Read: true, Direct: true})
	b := make([]byte, 4096)
	for _, name := range []string{"no", "none"} {
		if _, err := r.cache.Lookup(ctx, session.OwnCred(), r.cache.Root(), name); err == nil {
			r.t.Fatal("found " + name)
		}
		for range 1500 {
			r.check(readLent(ctx, f, b, 0))
		}
	}
}

// server is what the server has allocated since it was asked last.
func (r *rig) server() (objects, bytes int64) {
	_, err := fmt.Fprintln(r.in)
	r.check(err)
	_, err = fmt.Fscanln(r.out, &objects, &bytes)
	r.check(err)
	return objects, bytes
}

// operation is something that is done again and again, each time at another place.
type operation struct {
	name string
	mode cache.OpenMode
	size int
	do   func(ctx context.Context, f *cache.File, b []byte, off int64) error
	most int // allocations that it may cost
}

func readLent(ctx context.Context, f *cache.File, b []byte, off int64) error {
	n, lent, err := f.ReadLent(ctx, b, off)
	if err == nil && n != len(b) {
		err = fmt.Errorf("read %d of %d bytes", n, len(b))
	}
	lent.Release()
	return err
}

func write(ctx context.Context, f *cache.File, b []byte, off int64) error {
	n, err := f.Write(ctx, b, off)
	if err == nil && n != len(b) {
		err = fmt.Errorf("wrote %d of %d bytes", n, len(b))
	}
	return err
}

var operations = []operation{
	{"read/4KiB", cache.OpenMode{Read: true, Direct: true}, 4 << 10, readLent, 0},
	{"read/1MiB", cache.OpenMode{Read: true, Direct: true}, 1 << 20, readLent, 0},
	{"writedirect/4KiB", cache.OpenMode{Read: true, Write: true, Direct: true}, 4 << 10, write, 1},
	{"writedirect/1MiB", cache.OpenMode{Read: true, Write: true, Direct: true}, 1 << 20, write, 1},
	{"write/4KiB", cache.OpenMode{Read: true, Write: true}, 4 << 10, write, -1},
	{"write/1MiB", cache.OpenMode{Read: true, Write: true}, 1 << 20, write, -1},
}

// next is where the operation after that at off is: never just behind it, as that would be a
// stream.
func (o *operation) next(off int64) int64 {
	return (off + 18*int64(o.size)) % (fileSize - int64(o.size)) &^ 4095
}
