package ring_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/fs/ring"
	"github.com/rdmafs/rdmafs/test/ringtest"
)

const maxIO = 1 << 20

// small is a file system of one file, which is in memory. The names "wait…" are
// looked up when somebody opens the gate, or the request is interrupted.
type small struct {
	fuse.RawFileSystem
	gate    chan struct{}
	open    func()      // opens it
	waiting chan string // a name that waits
	ended   chan string // a name whose request was interrupted
	forgot  chan uint64

	mu   sync.Mutex
	data []byte
}

const fileNode = 2

func newSmall() *small {
	f := &small{RawFileSystem: fuse.NewDefaultRawFileSystem(), gate: make(chan struct{}),
		waiting: make(chan string, 1000), ended: make(chan string, 1000), forgot: make(chan uint64, 1000)}
	f.open = sync.OnceFunc(func() { close(f.gate) })
	return f
}

func (f *small) attr(node uint64, a *fuse.Attr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*a = fuse.Attr{Ino: node, Mode: unix.S_IFDIR | 0o777, Nlink: 2}
	if node != fuse.FUSE_ROOT_ID {
		*a = fuse.Attr{Ino: node, Mode: unix.S_IFREG | 0o666, Nlink: 1, Size: uint64(len(f.data))}
	}
}

func (f *small) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	f.attr(in.NodeId, &out.Attr)
	return fuse.OK
}

func (f *small) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	f.attr(in.NodeId, &out.Attr)
	return fuse.OK
}

func (f *small) Access(<-chan struct{}, *fuse.AccessIn) fuse.Status { return fuse.OK }

func (f *small) Lookup(cancel <-chan struct{}, _ *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if strings.HasPrefix(name, "wait") {
		f.waiting <- name
		select {
		case <-cancel:
			f.ended <- name
			return fuse.EINTR
		case <-f.gate:
		}
	} else if name != "file" {
		return fuse.ENOENT
	}
	out.NodeId = fileNode
	f.attr(fileNode, &out.Attr)
	return fuse.OK
}

func (f *small) Forget(node, n uint64) { f.forgot <- n }

func (f *small) Open(_ <-chan struct{}, _ *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_DIRECT_IO
	return fuse.OK
}

func (f *small) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.OK }
func (f *small) Release(<-chan struct{}, *fuse.ReleaseIn)         {}

func (f *small) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if in.Offset >= uint64(len(f.data)) {
		return fuse.ReadResultData(nil), fuse.OK
	}
	return fuse.ReadResultData(buf[:copy(buf, f.data[in.Offset:])]), fuse.OK
}

func (f *small) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	end := int(in.Offset) + len(data)
	if end > len(f.data) {
		f.data = append(f.data, make([]byte, end-len(f.data))...)
	}
	return uint32(copy(f.data[in.Offset:], data)), fuse.OK
}

// mounted is a mount of a small, by this process.
type mounted struct {
	fs     *small
	dir    string
	device *os.File
	server *ring.Server
}

// attach mounts, without serving.
func attach(t *testing.T) *mounted {
	t.Helper()
	ringtest.On(t)
	m := &mounted{fs: newSmall(), dir: t.TempDir()}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	m.device = os.NewFile(uintptr(fd), "/dev/fuse")
	t.Cleanup(func() { m.device.Close() })
	if err := unix.Mount("ring", m.dir, "fuse.ring", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,max_read=%d", fd, maxIO)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(m.dir, unix.MNT_DETACH) })
	m.server, err = ring.New(m.fs, m.device, &fuse.MountOptions{MaxWrite: maxIO, MaxReadAhead: maxIO, MaxBackground: 12}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// mount mounts and serves. When the test ends, it is unmounted, and nothing of it
// is left.
func mount(t *testing.T) *mounted {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		if n := runtime.NumGoroutine(); n > before {
			t.Errorf("%d goroutines are left", n-before)
		}
	})
	m := attach(t)
	t.Cleanup(m.server.Wait)
	t.Cleanup(func() { _ = unix.Unmount(m.dir, unix.MNT_DETACH) })
	t.Cleanup(m.fs.open)
	if err := m.server.Register(); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *mounted) path(name string) string { return filepath.Join(m.dir, name) }

// open opens by a system call: os.Open would poll.
func (m *mounted) open(t *testing.T, flags int) int {
	t.Helper()
	fd, err := unix.Open(m.path("file"), flags|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for k := range b {
		b[k] = byte((k + seed) * 2654435761 >> 13)
	}
	return b
}

// TestReadWrite: data of many sizes, and of several requests each, from 16
// threads.
func TestReadWrite(t *testing.T) {
	m := mount(t)
	const each = 4 << 20
	var wg sync.WaitGroup
	for k := range 16 {
		wg.Go(func() {
			fd, err := unix.Open(m.path("file"), unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer unix.Close(fd)
			for _, n := range []int{1, 127, 4096, 4097, 65536, maxIO - 1, maxIO, maxIO + 1, 3*maxIO + 5} {
				want, at := pattern(n, k), int64(k*each)
				if got, err := unix.Pwrite(fd, want, at); got != n || err != nil {
					t.Errorf("wrote %d of %d: %v", got, n, err)
				}
				buf := make([]byte, n)
				if got, err := unix.Pread(fd, buf, at); got != n || err != nil || !bytes.Equal(buf, want) {
					t.Errorf("read %d of %d: %v, same: %t", got, n, err, bytes.Equal(buf, want))
				}
			}
		})
	}
	wg.Wait()
}

// TestErrors: errors and empty answers arrive.
func TestErrors(t *testing.T) {
	m := mount(t)
	var st unix.Stat_t
	if err := unix.Stat(m.path("none"), &st); err != unix.ENOENT {
		t.Error(err)
	}
	if err := unix.Mkdir(m.path("dir"), 0o777); err != unix.ENOSYS {
		t.Error(err)
	}
	fd := m.open(t, unix.O_RDONLY)
	defer unix.Close(fd)
	if n, err := unix.Read(fd, make([]byte, 10)); n != 0 || err != nil {
		t.Errorf("%d, %v at the end of the file", n, err)
	}
}

// waiters starts n processes on the first CPU that look a name up which waits, one
// after the other.
func (m *mounted) waiters(t *testing.T, n int) []*exec.Cmd {
	t.Helper()
	all := make([]*exec.Cmd, n)
	for k := range all {
		name := "wait" + strconv.Itoa(k)
		all[k] = exec.Command("taskset", "-c", "0", "stat", m.path(name))
		if err := all[k].Start(); err != nil {
			t.Skipf("no taskset: %v", err)
		}
		if got := m.await(t, m.fs.waiting); got != name {
			t.Errorf("%s waits, not %s", got, name)
		}
	}
	return all
}

func (m *mounted) await(t *testing.T, c <-chan string) string {
	t.Helper()
	select {
	case s := <-c:
		return s
	case <-time.After(60 * time.Second):
		t.Fatal("nothing happens")
		return ""
	}
}

// TestManyWait: all but one of the requests that one CPU may have wait, and the
// next is served nevertheless. Names differ, since the kernel looks one up once at
// a time; they are in one directory, which may be looked up in parallel.
func TestManyWait(t *testing.T) {
	m := mount(t)
	all := m.waiters(t, m.server.LastEntries()-1)
	if out, err := exec.Command("taskset", "-c", "0", "stat", m.path("file")).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	m.fs.open()
	for _, c := range all {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// TestInterrupt: a process that is killed interrupts its request, and no other.
func TestInterrupt(t *testing.T) {
	m := mount(t)
	all := m.waiters(t, 8)
	for k, c := range all {
		if k%2 == 0 {
			continue
		}
		if err := c.Process.Kill(); err != nil {
			t.Error(err)
		}
		if got := m.await(t, m.fs.ended); got != "wait"+strconv.Itoa(k) {
			t.Errorf("%s was interrupted, wait%d was meant", got, k)
		}
		_ = c.Wait()
	}
	m.fs.open()
	for k, c := range all {
		if k%2 == 0 {
			if err := c.Wait(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestAbort: a connection that is aborted ends what waits, and Wait returns.
func TestAbort(t *testing.T) {
	m := mount(t)
	all := m.waiters(t, 4)
	control := t.TempDir()
	if err := unix.Mount("none", control, "fusectl", 0, ""); err != nil {
		t.Skipf("no fusectl: %v", err)
	}
	defer func() { _ = unix.Unmount(control, unix.MNT_DETACH) }()
	abort := filepath.Join(control, strconv.Itoa(minor(t, m.dir)), "abort")
	if err := os.WriteFile(abort, []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Wait() == nil {
			t.Error("a request of an aborted connection succeeded")
		}
	}
	m.server.Wait()
	if n := len(m.fs.ended); n != len(all) {
		t.Errorf("%d requests were interrupted, want %d", n, len(all))
	}
}

// minor is the minor number of the device of the file system at dir, from the
// mount table: stat would ask the file system.
func minor(t *testing.T, dir string) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if f[4] != dir {
			continue
		}
		_, m, _ := strings.Cut(f[2], ":")
		n, err := strconv.Atoi(m)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Fatal("not in the mount table")
	return 0
}

// TestForced: umount -f with requests outstanding.
func TestForced(t *testing.T) {
	m := mount(t)
	all := m.waiters(t, 4)
	// It is in use; but MNT_FORCE has aborted the connection by then.
	if err := unix.Unmount(m.dir, unix.MNT_FORCE); err != nil && err != unix.EBUSY {
		t.Error(err)
	}
	for _, c := range all {
		if c.Wait() == nil {
			t.Error("a request succeeded")
		}
	}
	m.server.Wait()
}

// TestForget: FORGET comes by /dev/fuse.
func TestForget(t *testing.T) {
	m := mount(t)
	var st unix.Stat_t
	if err := unix.Stat(m.path("file"), &st); err != nil {
		t.Fatal(err)
	}
	if err := unix.Unmount(m.dir, 0); err != nil {
		t.Fatal(err)
	}
	m.server.Wait()
	// The kernel forgets at the end without saying so: what it does say is whole.
	for len(m.fs.forgot) > 0 {
		if n := <-m.fs.forgot; n != 1 {
			t.Errorf("%d lookups were forgotten, of 1", n)
		}
	}
}

// TestNotify: notifications reach the kernel.
func TestNotify(t *testing.T) {
	m := mount(t)
	if st := m.server.InodeNotify(fileNode, 0, 0); st != fuse.ENOENT {
		t.Errorf("a node that the kernel does not know: %v", st)
	}
	fd := m.open(t, unix.O_RDONLY)
	if st := m.server.InodeNotify(fileNode, 0, 0); !st.Ok() {
		t.Error(st)
	}
	unix.Close(fd)
	if !m.server.KernelSettings().SupportsNotify(fuse.NOTIFY_PRUNE) {
		return
	}
	if st := m.server.PruneNotify([]uint64{fileNode}); !st.Ok() {
		t.Error(st)
	}
	select {
	case <-m.fs.forgot:
	case <-time.After(60 * time.Second):
		t.Error("nothing was forgotten")
	}
}

// TestRefused: if the kernel refuses an entry, requests come by /dev/fuse until
// the mount has been undone.
func TestRefused(t *testing.T) {
	m := attach(t)
	ring.ShortenPayload(m.server)
	if err := m.server.Register(); err == nil || !strings.Contains(err.Error(), syscall.EINVAL.Error()) {
		t.Errorf("registered: %v", err)
	}
	var st unix.Stat_t
	if err := unix.Stat(m.path("file"), &st); err != nil {
		t.Error(err)
	}
	if err := unix.Unmount(m.dir, 0); err != nil {
		t.Error(err)
	}
	m.server.Wait()
}
