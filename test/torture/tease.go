package torture

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
)

// RunTeaser is the main function of a process that uses a directory of which
// nothing may be expected. It says "teased" after each thing that it does, and
// ends when standard input does.
func RunTeaser(dir string) error {
	var stop atomic.Bool
	go runStop(&stop)
	r := rand.New(rand.NewPCG(1, 2))
	for i := 0; !stop.Load(); i++ {
		tease(r, dir, fmt.Sprint("own", i%50))
		if _, err := fmt.Println("teased"); err != nil {
			return err
		}
	}
	return nil
}

func runStop(stop *atomic.Bool) {
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop.Store(true)
}

// tease does one thing in dir and does not mind what comes of it. What is there
// may pass for a FIFO, of which opening would wait for a writer, have no end, or
// a size that nobody has room for.
func tease(r *rand.Rand, dir, name string) {
	own, truth := filepath.Join(dir, name), filepath.Join(dir, "truth")
	switch r.IntN(5) {
	case 0:
		_, _ = os.Lstat(truth)
		_, _ = os.Readlink(truth)
	case 1:
		if d, err := os.Open(dir); err == nil {
			_, _ = d.Readdirnames(3000)
			_ = d.Close()
		}
	case 2:
		if f, err := os.OpenFile(truth, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
			_, _ = f.ReadAt(make([]byte, 100_000), r.Int64N(200_000))
			_ = f.Close()
		}
	case 3:
		_ = os.Mkdir(own, 0o700)
		_ = os.Symlink("x", filepath.Join(own, "link"))
		_ = os.Rename(own, own+"-moved")
		_ = os.Remove(filepath.Join(own+"-moved", "link"))
		_ = os.Remove(own + "-moved")
		_ = os.Link(truth, own)
		_ = os.Remove(own)
	default:
		if f, err := os.OpenFile(own, os.O_WRONLY|os.O_CREATE|syscall.O_NONBLOCK, 0o600); err == nil {
			_, _ = f.Write(make([]byte, r.IntN(200_000)))
			_ = f.Close()
		}
		_ = os.Remove(own)
	}
}
