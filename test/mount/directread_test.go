package mount

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
)

// TestReadBesideDirectWrite: a page is read while an asynchronous direct write of
// it waits for an earlier WRITE, and the kernel keeps it. Reads after the direct
// write is done see what it wrote.
func TestReadBesideDirectWrite(t *testing.T) {
	came, release := make(chan struct{}, 100), make(chan struct{})
	s := startServer(t, serverOptions{faults: &nfsd.Faults{
		Before: func(ctx context.Context, e nfsd.Event) nfsd.Action {
			if e.Prog == nfsProgram && e.Proc == wire.ProcWrite {
				came <- struct{}{}
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			return nfsd.Proceed
		},
	}})
	m := s.mount(t, "rdma", "")
	const size = 4096
	name := filepath.Join(m.Dir, "f")
	first, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	buffered, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer buffered.Close()
	direct, err := os.OpenFile(name, os.O_RDWR|unix.O_DIRECT, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	// The mapping is never touched: mincore shows whether the kernel has the page.
	page, err := unix.Mmap(int(buffered.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(page)

	before, after := content(1, size), content(2, size)
	if _, err := first.WriteAt(before, 0); err != nil {
		t.Fatal(err)
	}
	if !resident(t, page) {
		t.Fatal("the kernel has not kept the page that was written")
	}
	closed := make(chan error)
	go func() { closed <- first.Close() }() // an fsync would keep the direct write out
	<-came
	written := submitWrite(t, direct, after)
	if resident(t, page) {
		t.Fatal("the kernel has kept the page that is being written")
	}
	got := make([]byte, size)
	if _, err := buffered.ReadAt(got, 0); err != nil || !bytes.Equal(got, before) && !bytes.Equal(got, after) {
		t.Errorf("meanwhile, %s; %v", firstDifference(got, before), err)
	}
	close(release)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	written()
	if _, err := buffered.ReadAt(got, 0); err != nil || !bytes.Equal(got, after) {
		t.Errorf("after the direct write, %s; %v", firstDifference(got, after), err)
	}
}

// TestReadersBesideDirectWriters: when asynchronous direct writes are done, more of
// them at a time than the kernel sends, buffered readers of the same file, who
// went over it all the time, have no page that is not what the server has.
func TestReadersBesideDirectWriters(t *testing.T) {
	s := startServer(t, serverOptions{})
	m := s.mount(t, "rdma", "")
	name := filepath.Join(m.Dir, "f")
	const size = 2 << 20
	if err := os.WriteFile(name, make([]byte, size), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for round := range 2 {
		args := []string{"--filename=" + name, "--size=2M", "--invalidate=0", "--overwrite=1", "--fallocate=none", fmt.Sprint("--randseed=", round),
			"--name=write", "--rw=randwrite", "--bs=4k", "--direct=1", "--ioengine=libaio", "--iodepth=200", "--refill_buffers",
			"--name=read", "--rw=read", "--bs=64k", "--ioengine=psync", "--loops=4",
			"--name=random", "--rw=randread", "--bs=4k", "--ioengine=psync", "--loops=2"}
		if out, err := exec.Command("fio", args...).CombinedOutput(); err != nil {
			t.Fatalf("fio %q: %v: %.600s", args, err, out)
		}
		got := make([]byte, size)
		if _, err := f.ReadAt(got, 0); err != nil {
			t.Fatal(err)
		}
		if want, err := os.ReadFile(filepath.Join(s.export, "f")); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("round %d: the kernel's pages are %s; %v", round, firstDifference(got, want), err)
		}
	}
}

// resident reports whether the kernel has a mapping's first page.
func resident(t *testing.T, mapping []byte) bool {
	t.Helper()
	vec := make([]byte, 1)
	if _, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mapping[0])), 1, uintptr(unsafe.Pointer(&vec[0]))); e != 0 {
		t.Fatal(e)
	}
	return vec[0]&1 != 0
}

// submitWrite starts to write b at the start of f, asynchronously (io_submit(2));
// the function that it returns waits until that is done.
func submitWrite(t *testing.T, f *os.File, b []byte) (wait func()) {
	t.Helper()
	var ring uintptr
	if _, _, e := unix.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&ring)), 0); e != 0 {
		t.Fatal(e)
	}
	t.Cleanup(func() { unix.Syscall(unix.SYS_IO_DESTROY, ring, 0, 0) })
	const pwrite = 1 // IOCB_CMD_PWRITE
	request := &struct {
		data      uint64
		key, rw   uint32
		op, prio  uint16
		fd        uint32
		buf       *byte
		n, offset uint64
		_         uint64
		flags, _  uint32
	}{op: pwrite, fd: uint32(f.Fd()), buf: &b[0], n: uint64(len(b))}
	list := []unsafe.Pointer{unsafe.Pointer(request)}
	if n, _, e := unix.Syscall(unix.SYS_IO_SUBMIT, ring, 1, uintptr(unsafe.Pointer(&list[0]))); n != 1 {
		t.Fatal(e)
	}
	return func() {
		t.Helper()
		var event struct{ data, obj, res, res2 uint64 }
		n, e := uintptr(0), unix.EINTR
		for e == unix.EINTR {
			n, _, e = unix.Syscall6(unix.SYS_IO_GETEVENTS, ring, 1, 1, uintptr(unsafe.Pointer(&event)), 0, 0)
		}
		if n != 1 || event.res != uint64(len(b)) {
			t.Fatalf("direct write: %d, %v", int64(event.res), e)
		}
		runtime.KeepAlive(request)
	}
}
