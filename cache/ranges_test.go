package cache

import (
	"bytes"
	"context"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// ranger is a fake that copies and makes holes. Its copies are unstable.
type ranger struct {
	*fake
	crashes int // it crashes right after so many copies
}

func (s *ranger) Seek(context.Context, nfsclient.Cred, nfsclient.Handle, nfsclient.OpenState, uint64, bool) (uint64, error) {
	return 0, nfsclient.ErrNotSupported
}

func (s *ranger) Allocate(context.Context, nfsclient.Cred, nfsclient.Handle, nfsclient.OpenState, uint64, uint64) (nfsclient.Wcc, error) {
	return nfsclient.Wcc{}, nfsclient.ErrNotSupported
}

func (s *ranger) Deallocate(ctx context.Context, _ nfsclient.Cred, h nfsclient.Handle, _ nfsclient.OpenState, off, n uint64) (w nfsclient.Wcc, err error) {
	err = s.run(ctx, "DEALLOCATE", func() error {
		x := s.nodes[h]
		clear(x.data[off : off+n])
		clear(x.stable[off : off+n])
		w.After = x.after()
		return nil
	})
	return w, err
}

func (s *ranger) Copy(ctx context.Context, _ nfsclient.Cred, from nfsclient.Handle, _ nfsclient.OpenState, off uint64,
	to nfsclient.Handle, _ nfsclient.OpenState, toOff, n uint64) (r nfsclient.WriteResult, err error) {
	err = s.run(ctx, "COPY", func() error {
		x, y := s.nodes[from], s.nodes[to]
		if grow := int(toOff+n) - len(y.data); grow > 0 {
			y.data = append(y.data, make([]byte, grow)...)
		}
		r.N = copy(y.data[toOff:toOff+n], x.data[off:])
		y.attr.Size = uint64(len(y.data))
		r.Wcc.After = y.after()
		r.Verifier[0], r.Verifier[1] = byte(s.verifier), byte(s.verifier>>8)
		return nil
	})
	if s.crashes > 0 {
		s.crashes--
		s.crash()
	}
	return r, err
}

// TestCopyIsStable: a copy that a crash of the server has lost is made again before its caller is
// answered, of what was written before it, and a later crash does not lose it.
func TestCopyIsStable(t *testing.T) {
	srv := &ranger{fake: newFake(t), crashes: 2}
	cache := newCache(t, srv, testConfig())
	from, to := create(t, cache, "a"), create(t, cache, "b")
	defer from.Release()
	defer to.Release()
	want := pattern(300_000, 1)
	write(t, from, want, 0)
	n, err := from.Copy(ctx, 0, to, 0, 1<<30)
	check(t, err)
	if n != len(want) {
		t.Fatalf("%d bytes copied, want %d", n, len(want))
	}
	if got := srv.count("COPY"); got != 3 {
		t.Errorf("%d COPYs, want one more than crashes", got)
	}
	srv.crash()
	got := make([]byte, len(want)+1)
	n, err = to.Read(ctx, got, 0)
	check(t, err)
	if !bytes.Equal(got[:n], want) {
		t.Errorf("%d bytes read are not what was copied", n)
	}
}

// TestHoleStays: what was written before a hole was made does not come back when the server has lost
// it.
func TestHoleStays(t *testing.T) {
	srv := &ranger{fake: newFake(t)}
	cache := newCache(t, srv, testConfig())
	f := create(t, cache, "a")
	defer f.Release()
	want := pattern(300_000, 1)
	write(t, f, want, 0)
	check(t, f.i.drain(ctx))
	check(t, f.Deallocate(ctx, 1000, 200_000))
	srv.crash()
	check(t, f.Fsync(ctx))
	clear(want[1000:201_000])
	got := make([]byte, len(want))
	_, err := f.Read(ctx, got, 0)
	check(t, err)
	if !bytes.Equal(got, want) {
		t.Error("what was read is not the file with a hole")
	}
}
