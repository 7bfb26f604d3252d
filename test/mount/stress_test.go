package mount

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/posix"
)

var (
	stressSessions = flag.Int("stress.sessions", 12, "how often TestStressData opens each of its files; TestStressNames makes thrice as many calls with each set of names")
	stressSeed     = flag.Uint64("stress.seed", 0, "the first seed of the stress tests; 0 for a random one")
)

// stress4 is the option of mounts of version 4 in the stress tests. The server recalls a delegation of one mount when the other
// writes, and both reclaim their open files after each crash.
const stress4 = "vers=4.2"

// with4 has the server speak version 4, with delegations, if the words of its mounts ask for that.
func (o serverOptions) with4(words string) serverOptions {
	if strings.Contains(words, stress4) {
		o.versions, o.delegations = nfsd.V3|nfsd.V41|nfsd.V42, true
	}
	return o
}

// faultyCalls disturbs a server's calls: it delays them and their replies, so that they
// overtake each other, loses them, connections, or the server with all that is
// not on disk, and has the disk fail.
type faultyCalls struct {
	crashes, drops, fails atomic.Int64
	badDisk               bool

	mu sync.Mutex
	r  *rand.Rand
}

func (w *faultyCalls) dice(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.r.IntN(n)
}

func (w *faultyCalls) disturb(ctx context.Context, e nfsd.Event) nfsd.Action {
	if e.Prog != nfsProgram {
		return nfsd.Proceed
	}
	if w.dice(5) == 0 {
		late, end := context.WithTimeout(ctx, time.Duration(w.dice(4000))*time.Microsecond)
		<-late.Done()
		end()
	}
	switch k := w.dice(2000); {
	case k < 6:
		w.crashes.Add(1)
		return nfsd.Crash
	case k < 16:
		w.drops.Add(1)
		return nfsd.Drop
	case k < 17:
		return nfsd.Hang
	}
	return nfsd.Proceed
}

func (w *faultyCalls) sync() error {
	if !w.badDisk || w.dice(12) > 0 {
		return nil
	}
	w.fails.Add(1)
	return []error{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT}[w.dice(3)]
}

// TestStressData: two clients use one set of files in turns, each opening what the
// other has closed, while their server delays calls, cuts connections and crashes. No call fails but for
// the disk's failures, every read gives what was written, and what fsync, msync
// or close has acknowledged is on the disk at that moment.
func TestStressData(t *testing.T) {
	first := *stressSeed
	if first == 0 {
		first = rand.Uint64()
	}
	for k, c := range []struct {
		protos  [2]string
		words   string
		badDisk bool
	}{
		{protos: [2]string{"rdma", "rdma"}, words: "nconnect=2"},
		{protos: [2]string{"tcp", "tcp"}, words: "nconnect=2"},
		{protos: [2]string{"rdma", "tcp"}, words: "wsize=8192,rsize=8192", badDisk: true},
		{protos: [2]string{"rdma", "tcp"}, words: "fuse=ring"},
		{protos: [2]string{"rdma", "tcp"}, words: stress4 + ",nconnect=2"},
		{protos: [2]string{"tcp", "rdma"}, words: stress4 + ",wsize=8192,rsize=8192", badDisk: true},
	} {
		seed := first + uint64(k)
		t.Run(fmt.Sprintf("%s+%s,%s,seed=%d", c.protos[0], c.protos[1], c.words, seed), func(t *testing.T) {
			w := &faultyCalls{badDisk: c.badDisk, r: rand.New(rand.NewPCG(seed, 0))}
			s := startServer(t, serverOptions{lossy: true, faults: &nfsd.Faults{Before: w.disturb, After: w.disturb, Sync: w.sync}}.with4(c.words))
			var dirs []string
			for _, proto := range c.protos {
				dirs = append(dirs, mountRetrying(t, s.source(), s.words(proto, "timeo=10,"+c.words)).Dir)
			}
			var actors sync.WaitGroup
			for n := range 4 {
				a := &actor{t: t, r: rand.New(rand.NewPCG(seed, uint64(n+1))), dirs: dirs, export: s.export,
					name: fmt.Sprint("f", n), fails: c.badDisk}
				actors.Go(func() {
					for k := range *stressSessions {
						if err := a.session(); err != nil {
							t.Errorf("%s, session %d: %v; %s", a.name, k, err, a.log)
							return
						}
					}
				})
			}
			actors.Wait()
			t.Logf("%d crashes, %d connections cut, %d failures of the disk", w.crashes.Load(), w.drops.Load(), w.fails.Load())
		})
	}
}

// actor uses one file.
type actor struct {
	t            *testing.T
	r            *rand.Rand
	dirs         []string
	export, name string
	fails        bool // the disk does

	want  []byte // what the file holds
	acked []byte // what it held when that was last acknowledged,
	keeps []bool // of which these bytes have not been changed since
	temps int
	log   []string // of the session
}

func (a *actor) say(format string, args ...any) {
	a.log = append(a.log, fmt.Sprintf(format, args...))
}

// ofDisk says whether the disk is to blame for err.
func ofDisk(err error) bool {
	return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// session opens the file, uses it and closes it.
func (a *actor) session() error {
	a.log = a.log[:0]
	err := a.use(a.dirs[a.r.IntN(len(a.dirs))])
	if err == nil || !a.fails || !ofDisk(err) {
		return err
	}
	a.say("failed: %v", err)
	disk, err := os.ReadFile(filepath.Join(a.export, a.name))
	if err != nil && (a.acked != nil || !errors.Is(err, os.ErrNotExist)) {
		return err
	}
	for k, keeps := range a.keeps {
		if keeps && (k >= len(disk) || disk[k] != a.acked[k]) {
			return fmt.Errorf("byte %d, acknowledged and not written since, is lost: %d bytes on disk, %d acknowledged", k, len(disk), len(a.acked))
		}
	}
	return a.anew()
}

// anew gives the file a content that is known.
func (a *actor) anew() error {
	for {
		a.want = a.bytes(1 + a.r.IntN(50_000))
		err := os.WriteFile(filepath.Join(a.dirs[a.r.IntN(len(a.dirs))], a.name), a.want, 0o644)
		if err == nil {
			return a.acknowledged("write anew")
		}
		if !ofDisk(err) {
			return err
		}
	}
}

func (a *actor) bytes(n int) []byte {
	b := make([]byte, n)
	for k := range b {
		b[k] = byte(a.r.Uint32())
	}
	return b
}

// acknowledged compares what is on disk with what was written.
func (a *actor) acknowledged(by string) error {
	disk, err := os.ReadFile(filepath.Join(a.export, a.name))
	if err != nil {
		return fmt.Errorf("after %s: %w", by, err)
	}
	if !bytes.Equal(disk, a.want) {
		return fmt.Errorf("after %s the disk has %s", by, firstDifference(disk, a.want))
	}
	a.acked, a.keeps = bytes.Clone(a.want), make([]bool, len(a.want))
	for k := range a.keeps {
		a.keeps[k] = true
	}
	return nil
}

// changing records that [off, end) is about to be changed.
func (a *actor) changing(off, end int) {
	for k := off; k < min(end, len(a.keeps)); k++ {
		a.keeps[k] = false
	}
}

func (a *actor) resize(n int) {
	a.changing(n, len(a.keeps))
	if n <= len(a.want) {
		a.want = a.want[:n:n]
	} else {
		a.want = append(a.want, make([]byte, n-len(a.want))...)
	}
}

func (a *actor) use(dir string) error {
	name := filepath.Join(dir, a.name)
	if a.r.IntN(8) == 0 {
		return a.replace(dir, name)
	}
	flags := [...]int{0, 0, os.O_APPEND, os.O_APPEND, os.O_TRUNC, os.O_SYNC, unix.O_DIRECT}[a.r.IntN(7)]
	a.say("open %s with %#x", dir, flags)
	if flags == os.O_TRUNC {
		a.changing(0, len(a.keeps))
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|flags, 0o644)
	if err != nil {
		return err
	}
	if flags == os.O_TRUNC {
		a.want = nil
	}
	for range a.r.IntN(10) {
		if err := a.step(f, name, flags); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	return a.acknowledged("close")
}

// replace renames a new file over the one there is. The reply may be lost
// together with the server's memory of the call, which is then ENOENT.
func (a *actor) replace(dir, name string) error {
	a.temps++
	temp := filepath.Join(dir, fmt.Sprint(a.name, ".", a.temps))
	b := a.bytes(a.r.IntN(20_000))
	a.say("replace in %s by %d", dir, len(b))
	if err := os.WriteFile(temp, b, 0o644); err != nil {
		return err
	}
	if err := os.Rename(temp, name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	a.want = b
	return a.acknowledged("rename")
}

func (a *actor) step(f *os.File, name string, flags int) error {
	const most = 200_000
	off, n := a.r.IntN(most), 1+a.r.IntN(30_000)
	switch a.r.IntN(10) {
	case 0, 1, 2:
		return a.write(f, off, a.bytes(n), flags)
	case 3:
		a.say("stream at %d", off)
		for range a.r.IntN(20) {
			b := a.bytes(1 + a.r.IntN(3000))
			if err := a.write(f, off, b, flags); err != nil {
				return err
			}
			off += len(b)
		}
		return nil
	case 4:
		a.say("read at %d", off)
		return a.read(f, off, n)
	case 5:
		st, err := f.Stat()
		if err == nil && st.Size() != int64(len(a.want)) {
			err = fmt.Errorf("size %d, want %d", st.Size(), len(a.want))
		}
		if err == nil {
			err = a.read(f, 0, most)
		}
		return err
	case 6:
		a.say("truncate to %d", off)
		a.changing(off, most)
		if err := f.Truncate(int64(off)); err != nil {
			return err
		}
		a.resize(off)
		return nil
	case 7:
		a.say("fsync")
		if err := f.Sync(); err != nil {
			return err
		}
		return a.acknowledged("fsync")
	case 8:
		if flags == unix.O_DIRECT || len(a.want) == 0 {
			return nil
		}
		return a.mapped(f)
	}
	a.say("read by another opening")
	g, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(a.read(g, off, n), g.Close())
}

func (a *actor) write(f *os.File, off int, b []byte, flags int) (err error) {
	if flags == os.O_APPEND {
		off = len(a.want)
	}
	a.say("write %d at %d", len(b), off)
	a.changing(off, off+len(b))
	if flags == os.O_APPEND {
		_, err = f.Write(b)
	} else {
		_, err = f.WriteAt(b, int64(off))
	}
	if err != nil {
		return err
	}
	if off+len(b) > len(a.want) {
		a.resize(off + len(b))
	}
	copy(a.want[off:], b)
	if flags == os.O_SYNC {
		return a.acknowledged("a synchronous write")
	}
	return nil
}

func (a *actor) read(f *os.File, off, n int) error {
	got := make([]byte, n)
	k, err := f.ReadAt(got, int64(off))
	if err != nil && err != io.EOF {
		return err
	}
	off = min(off, len(a.want))
	if want := a.want[off:min(off+n, len(a.want))]; !bytes.Equal(got[:k], want) {
		return fmt.Errorf("read of %d at %d: %s", n, off, firstDifference(got[:k], want))
	}
	return nil
}

// mapped writes through a mapping.
func (a *actor) mapped(f *os.File) error {
	size := len(a.want)
	off := a.r.IntN(size)
	b := a.bytes(1 + a.r.IntN(min(size-off, 20_000)))
	a.say("map and store %d at %d", len(b), off)
	m, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	a.changing(off, off+len(b))
	if err = posix.Store(m[off:off+len(b)], b); err == nil {
		copy(a.want[off:], b)
		err = a.compareMapping(m)
		if serr := unix.Msync(m, unix.MS_SYNC); err == nil {
			err = serr
		}
	}
	if err := errors.Join(err, unix.Munmap(m)); err != nil {
		return err
	}
	return a.acknowledged("msync")
}

// compareMapping has the kernel read the mapping: the runtime of a process that
// has a server in it must not wait for a page.
func (a *actor) compareMapping(m []byte) error {
	copied := filepath.Join(a.t.TempDir(), "mapping")
	if err := os.WriteFile(copied, m, 0o600); err != nil {
		return err
	}
	got, err := os.ReadFile(copied)
	if err == nil && !bytes.Equal(got, a.want) {
		err = fmt.Errorf("mapping: %s", firstDifference(got, a.want))
	}
	return err
}
