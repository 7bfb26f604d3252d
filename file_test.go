package rdmafs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/test/must"
	"github.com/rdmafs/rdmafs/test/nfsd"
)

// onBoth runs a test over TCP and over iWARP.
func onBoth(t *testing.T, test func(t *testing.T, v *server, f *FS)) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			v := serve(t)
			test(t, v, v.open(t, network))
		})
	}
}

// content is what the server has on its disk.
func (v *server) content(t testing.TB, name string) string {
	t.Helper()
	return string(must.Get[[]byte](t)(os.ReadFile(filepath.Join(v.dir, name))))
}

func random(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

// TestSequential writes and reads a file by its position.
func TestSequential(t *testing.T) {
	onBoth(t, func(t *testing.T, v *server, f *FS) {
		want := random(5<<20 + 17)
		o := must.Get[*File](t)(f.Create("file"))
		if n, err := io.Copy(o, bytes.NewReader(want)); err != nil || n != int64(len(want)) {
			t.Fatal(n, err)
		}
		if pos := must.Get[int64](t)(o.Seek(0, io.SeekCurrent)); pos != int64(len(want)) {
			t.Errorf("position %d behind the last write", pos)
		}
		if pos := must.Get[int64](t)(o.Seek(-int64(len(want)), io.SeekEnd)); pos != 0 {
			t.Errorf("position %d at the start", pos)
		}
		if got := must.Get[[]byte](t)(io.ReadAll(o)); !bytes.Equal(got, want) {
			t.Error("reads something else before it is written")
		}
		must.Do(t, o.Close())
		if got := v.content(t, "file"); got != string(want) {
			t.Error("the server has something else after Close")
		}
		if got := must.Get[[]byte](t)(f.ReadFile("file")); !bytes.Equal(got, want) {
			t.Error("ReadFile reads something else")
		}
	})
}

// TestAppend: O_APPEND writes at the end, and the position follows.
func TestAppend(t *testing.T) {
	onBoth(t, func(t *testing.T, v *server, f *FS) {
		must.Do(t, f.WriteFile("log", []byte("one\n"), 0o644))
		o := must.Get[*File](t)(f.OpenFile("log", os.O_RDWR|os.O_APPEND, 0))
		for _, line := range []string{"two\n", "three\n"} {
			must.Get[int](t)(o.WriteString(line))
		}
		if pos := must.Get[int64](t)(o.Seek(0, io.SeekCurrent)); pos != 14 {
			t.Errorf("position %d", pos)
		}
		must.Get[int64](t)(o.Seek(4, io.SeekStart))
		if got := must.Get[[]byte](t)(io.ReadAll(o)); string(got) != "two\nthree\n" {
			t.Errorf("reads %q", got)
		}
		if _, err := o.WriteAt([]byte("x"), 0); err == nil {
			t.Error("WriteAt wrote")
		}
		must.Do(t, o.Close())
		if got := v.content(t, "log"); got != "one\ntwo\nthree\n" {
			t.Errorf("the server has %q", got)
		}
	})
}

// TestConcurrent: goroutines write and read their own stretches of one file by
// WriterAt and ReaderAt, side by side.
func TestConcurrent(t *testing.T) {
	onBoth(t, func(t *testing.T, v *server, f *FS) {
		const workers, size, step = 8, 256 << 10, 7001
		want := random(workers * size)
		o := must.Get[*File](t)(f.Create("file"))
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				buf := make([]byte, step)
				for off := w * size; off < (w+1)*size; off += step {
					end := min(off+step, (w+1)*size)
					if n, err := o.WriteAt(want[off:end], int64(off)); err != nil || n != end-off {
						t.Errorf("WriteAt %d: %d, %v", off, n, err)
						return
					}
					if n, err := o.ReadAt(buf[:end-off], int64(off)); err != nil || !bytes.Equal(buf[:n], want[off:end]) {
						t.Errorf("ReadAt %d: %d, %v", off, n, err)
						return
					}
				}
			})
		}
		all.Wait()
		must.Do(t, o.Sync())
		if v.content(t, "file") != string(want) {
			t.Error("the server has something else after Sync")
		}
		// Readers of one position share the file out among them.
		must.Get[int64](t)(o.Seek(0, io.SeekStart))
		var sum atomic.Int64
		for range workers {
			all.Go(func() {
				n, err := io.Copy(io.Discard, struct{ io.Reader }{o})
				if err != nil {
					t.Error(err)
				}
				sum.Add(n)
			})
		}
		all.Wait()
		if sum.Load() != int64(len(want)) {
			t.Errorf("readers of one position had %d bytes of %d", sum.Load(), len(want))
		}
		if n, err := o.ReadAt(make([]byte, 10), int64(len(want)-3)); n != 3 || err != io.EOF {
			t.Errorf("ReadAt across the end: %d, %v", n, err)
		}
		if n, err := o.ReadAt(nil, int64(len(want))); n != 0 || err != nil {
			t.Errorf("ReadAt of nothing: %d, %v", n, err)
		}
		must.Do(t, o.Close())
	})
}

// TestSync: what Sync, Close and FS.Sync have acknowledged is in the server's
// file, and before it need not be.
func TestSync(t *testing.T) {
	onBoth(t, func(t *testing.T, v *server, f *FS) {
		o := must.Get[*File](t)(f.OpenFile("file", os.O_RDWR|os.O_CREATE, 0o600))
		for n, save := range []func() error{o.Sync, f.Sync, o.Close} {
			text := strings.Repeat("x", n+1)
			must.Get[int](t)(o.WriteAt([]byte(text), 0))
			must.Do(t, save())
			if got := v.content(t, "file"); got != text {
				t.Errorf("the server has %q after save %d", got, n)
			}
		}
		direct := must.Get[*File](t)(f.OpenFile("file", os.O_WRONLY|os.O_SYNC, 0))
		must.Get[int](t)(direct.Write([]byte("at once")))
		if got := v.content(t, "file"); got != "at once" {
			t.Errorf("the server has %q after a write with O_SYNC", got)
		}
		must.Do(t, direct.Close())
	})
}

// TestCrash: a server that crashes loses nothing that Sync has acknowledged, and
// what it has lost of the rest is written again.
func TestCrash(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			v := serve(t, func(c *nfsd.Config) { c.Exports[0].Lossy = true })
			f := v.open(t, network)
			want := random(3 << 20)
			o := must.Get[*File](t)(f.Create("file"))
			must.Get[int](t)(o.WriteAt(want[:1<<20], 0))
			must.Do(t, o.Sync())
			must.Get[int](t)(o.WriteAt(want[1<<20:], 1<<20)) // sent, and not committed
			must.Get[fs.FileInfo](t)(o.Stat())
			must.Do(t, v.Crash())
			if got := v.content(t, "file"); len(got) < 1<<20 || got[:1<<20] != string(want[:1<<20]) {
				t.Error("the crash took what Sync had acknowledged")
			} else if len(got) == len(want) {
				t.Log("the crash took nothing")
			}
			must.Do(t, o.Close())
			if v.content(t, "file") != string(want) {
				t.Error("the server has something else after Close")
			}
		})
	}
}

// TestWriteErrors: an error of a write in the background is returned by Close,
// and by FS.Close where no file's user was told.
func TestWriteErrors(t *testing.T) {
	full := failing(nfsd.Faults{Write: func(int) error { return syscall.ENOSPC }})
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			v := serve(t, full)
			f := v.open(t, network)
			o := must.Get[*File](t)(f.Create("told"))
			must.Get[int](t)(o.Write([]byte("lost")))
			err := o.Close()
			var pe *fs.PathError
			if !errors.As(err, &pe) || pe.Op != "close" || pe.Path != "told" || pe.Err != syscall.ENOSPC {
				t.Errorf("Close: %#v", err)
			}
			o = must.Get[*File](t)(f.Create("untold"))
			must.Get[int](t)(o.Write([]byte("lost")))
			err = f.Close(context.Background())
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), `"/untold"`) {
				t.Errorf("FS.Close: %v", err)
			}
			if err := o.Close(); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("Close after FS.Close: %v", err)
			}
		})
	}
}

// TestClosed: what is used after Close says so.
func TestClosed(t *testing.T) {
	v := serve(t)
	f := v.open(t, "tcp")
	o := must.Get[*File](t)(f.Create("a"))
	must.Do(t, o.Close())
	for what, err := range map[string]error{
		"Close":  o.WithContext(context.Background()).Close(),
		"Read":   second(o.Read(make([]byte, 1))),
		"Write":  second(o.Write(make([]byte, 1))),
		"ReadAt": second(o.ReadAt(make([]byte, 1), 0)),
		"Stat":   second(o.Stat()),
		"Sync":   o.Sync(),
	} {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s after Close: %v", what, err)
		}
	}
	o, d := must.Get[*File](t)(f.Create("b")), must.Get[fs.File](t)(f.Open("."))
	must.Get[int](t)(o.Write([]byte("safe")))
	view := f.WithContext(context.Background())
	must.Do(t, f.Close(context.Background()))
	if got := v.content(t, "b"); got != "safe" {
		t.Errorf("the server has %q after FS.Close", got)
	}
	for what, err := range map[string]error{
		"Open":       second(view.Open("a")),
		"Mkdir":      f.Mkdir("c", 0o777),
		"Sync":       f.Sync(),
		"FS.Close":   view.Close(context.Background()),
		"File.Write": second(o.Write([]byte("x"))),
		"File.Close": o.Close(),
		"dir.Close":  d.Close(),
	} {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s after FS.Close: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// sink is where CopyAt writes to. It takes limit bytes and then fails.
type sink struct {
	b     []byte
	limit int
}

var errFull = errors.New("full")

func (s *sink) WriteAt(p []byte, off int64) (int, error) {
	room := max(0, s.limit-int(off))
	if len(p) > room {
		return copy(s.b[off:], p[:room]), errFull
	}
	return copy(s.b[off:], p), nil
}

// TestCopyAt copies ranges of a file that is opened for direct reads, or not, to its end and
// to where the other side fails.
func TestCopyAt(t *testing.T) {
	onBoth(t, func(t *testing.T, v *server, f *FS) {
		want := random(3<<20 + 5)
		must.Do(t, os.WriteFile(filepath.Join(v.dir, "file"), want, 0o644))
		for _, flag := range []int{os.O_RDONLY, syscall.O_DIRECT} {
			o := must.Get[*File](t)(f.OpenFile("file", flag, 0))
			for _, c := range []struct {
				off, n, limit int
				err           error
			}{
				{0, 1 << 20, len(want), nil},
				{4096, 2<<20 + 77, len(want), nil},
				{3 << 20, 1 << 20, len(want), io.EOF},
				{len(want), 10, len(want), io.EOF},
				{0, 2 << 20, 1<<20 + 9, errFull},
			} {
				s := &sink{make([]byte, len(want)), c.limit}
				n, err := o.CopyAt(s, make([]byte, c.n), int64(c.off))
				if !errors.Is(err, c.err) {
					t.Errorf("%+v: %v", c, err)
				}
				if all := min(c.limit, c.off+c.n, len(want)) - c.off; n != all || !bytes.Equal(s.b[c.off:c.off+n], want[c.off:c.off+n]) {
					t.Errorf("%+v: copied %d of %d bytes, or others", c, n, all)
				}
			}
			if _, err := o.CopyAt(&sink{}, make([]byte, 1), -1); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("a negative offset: %v", err)
			}
			must.Do(t, o.Close())
		}
	})
}
