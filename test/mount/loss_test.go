package mount

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/nfsd"
)

// insideFullServer holds the writerRole of a process that TestFullServer starts.
const insideFullServer = "RDMAFS_TEST_FULL_SERVER"

// writerRole is a process that writes a file and then does what Then says.
type writerRole struct {
	Name string
	Then []string // of "child", "dup", "fsync", "close", "next"
}

// TestFullServer: 4 MiB are written with one write(2) to a server that takes half
// of it. Whatever write(2) returns, and whoever else has the descriptor and
// closes it, fsync and close fail.
func TestFullServer(t *testing.T) {
	if s := os.Getenv(insideFullServer); s != "" {
		var role writerRole
		if err := json.Unmarshal([]byte(s), &role); err != nil {
			t.Fatal(err)
		}
		role.play()
		return
	}
	var left atomic.Int64
	srv := startServer(t, serverOptions{faults: &nfsd.Faults{Write: func(n int) error {
		if left.Add(-int64(n)) < 0 {
			return syscall.ENOSPC
		}
		return nil
	}}})
	for n, c := range []struct {
		then []string
		says string
	}{
		{[]string{"fsync", "fsync", "close"}, "fsync ENOSPC, fsync OK, close OK"},
		{[]string{"close"}, "close ENOSPC"},
		{[]string{"child", "fsync", "close"}, "child OK, fsync ENOSPC, close OK"},
		{[]string{"child", "close"}, "child OK, close ENOSPC"},
		{[]string{"dup", "dup", "fsync"}, "dup ENOSPC, dup ENOSPC, fsync ENOSPC"},
		{[]string{"child", "next", "fsync"}, "child OK, next ENOSPC, fsync ENOSPC"},
	} {
		t.Run(strings.Join(c.then, ","), func(t *testing.T) {
			m := srv.mount(t, []string{"rdma", "tcp"}[n%2], "")
			left.Store(2 << 20)
			b, err := json.Marshal(writerRole{Name: filepath.Join(m.Dir, "f"), Then: c.then})
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(os.Args[0], "-test.run=^TestFullServer$",
				"-test.timeout="+flag.Lookup("test.timeout").Value.String())
			cmd.Env = append(os.Environ(), insideFullServer+"="+string(b))
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if said := strings.TrimSpace(string(out)); said != c.says {
				t.Errorf("%q, want %q", said, c.says)
			}
			m.Umount(t)
		})
	}
}

// play prints how each step ended.
func (role writerRole) play() {
	check := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	fd, err := unix.Open(role.Name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, 0o644)
	check(err)
	data := make([]byte, 4<<20)
	if n, err := unix.Write(fd, data); n <= 0 && err != unix.ENOSPC {
		check(fmt.Errorf("write: %d, %w", n, err))
	}
	var said []string
	for _, step := range role.Then {
		var err error
		switch step {
		case "child":
			err = leave(fd)
		case "dup":
			d, derr := unix.Dup(fd)
			check(derr)
			err = unix.Close(d)
		case "fsync":
			err = unix.Fsync(fd)
		case "close":
			err = unix.Close(fd)
		case "next":
			_, err = unix.Write(fd, data[:1])
		}
		how := "OK"
		if err != nil {
			how = unix.ErrnoName(err.(syscall.Errno))
		}
		said = append(said, step+" "+how)
	}
	fmt.Println(strings.Join(said, ", "))
	os.Exit(0)
}

// leave has a child inherit a descriptor and exit.
func leave(fd int) error {
	d, err := unix.Dup(fd)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(d), "inherited")
	cmd := exec.Command("true")
	cmd.ExtraFiles = []*os.File{f}
	if err := cmd.Run(); err != nil {
		return syscall.ECHILD
	}
	_ = f.Close() // as the kernel does for a program that does not look
	return nil
}
