package hostile

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
)

// RandomOp does one operation, chosen by r, on a mount whose server may lie, and
// ignores the outcome: on file, which may exist, or on own, which it makes and
// removes. Either may appear to be a FIFO, whose opening would wait for a writer,
// or to have a size beyond all memory.
func RandomOp(r *rand.Rand, file, own string) {
	switch r.IntN(5) {
	case 0:
		_, _ = os.Lstat(file)
		_, _ = os.Readlink(file)
	case 1:
		if d, err := os.Open(filepath.Dir(file)); err == nil {
			_, _ = d.Readdirnames(5000) // a listing may have no end
			_ = d.Close()
		}
	case 2:
		if f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
			_, _ = f.ReadAt(make([]byte, 300_000), r.Int64N(1<<20))
			_, _ = f.ReadAt(make([]byte, 5000), 1<<63-8192)
			_ = f.Close()
		}
	case 3:
		_ = os.Mkdir(own, 0o700)
		_ = os.Symlink("x", filepath.Join(own, "link"))
		_ = os.Rename(own, own+"-moved")
		_ = os.Remove(filepath.Join(own+"-moved", "link"))
		_ = os.Remove(own + "-moved")
		_ = os.Link(file, own)
		_ = os.Remove(own)
	default:
		if f, err := os.OpenFile(own, os.O_WRONLY|os.O_CREATE|syscall.O_NONBLOCK, 0o600); err == nil {
			_, _ = f.Write(make([]byte, r.IntN(200_000)))
			_ = f.Close()
		}
		_ = os.Truncate(own, int64(r.IntN(1000)))
		_ = os.Remove(own)
	}
}
