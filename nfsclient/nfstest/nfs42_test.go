package nfstest

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// only42 asserts that minor version 1 has none of what minor version 2 has brought.
func only42(u *user4) {
	ctx, cr := u.Context(), nfsclient.Cred{}
	h, st := u.create("none")
	_, err := u.c.Seek(ctx, cr, h, st, 0, true)
	_, err2 := u.c.GetXattr(ctx, cr, h, "x", 10)
	_, err3 := u.c.Copy(ctx, cr, h, st, 0, h, st, 10, 1)
	for _, err := range []error{err, err2, err3} {
		if !errors.Is(err, nfsclient.ErrNotSupported) {
			u.Errorf("minor version 1: %v", err)
		}
	}
	u.close(h, st)
}

// ranges42: holes, and copies at the server. What a server does not have it may say so, once for each
// operation.
func ranges42(u *user4) (lacks []string) {
	ctx, cr := u.Context(), nfsclient.Cred{}
	h, st := u.create("holes")
	may := func(op string, err error) bool {
		u.Helper()
		if errors.Is(err, nfsclient.ErrNotSupported) {
			lacks = append(lacks, op)
			return false
		}
		u.must(err)
		return true
	}
	const hole = 1 << 20
	u.write(h, st, 0, "head")
	u.write(h, st, hole, "tail")
	size := uint64(hole + 4)
	at, err := u.c.Seek(ctx, cr, h, st, 0, true)
	if may("SEEK", err) {
		if at == 0 || at > hole {
			u.Errorf("the first hole is at %d", at)
		}
		at, err = u.c.Seek(ctx, cr, h, st, at, false)
		if err != nil || at > hole || at < hole-1<<16 {
			u.Errorf("data behind the hole at %d, %v", at, err)
		}
		if at, err = u.c.Seek(ctx, cr, h, st, hole, true); err != nil || at != size {
			u.Errorf("the hole at the end is at %d, %v", at, err)
		}
		for _, what := range []bool{true, false} {
			if _, err = u.c.Seek(ctx, cr, h, st, size+1, what); !isStatus(err, nfsclient.ErrNXIO) {
				u.Errorf("behind the end: %v", err)
			}
		}
	}
	w, err := u.c.Allocate(ctx, cr, h, st, size, 1000)
	if may("ALLOCATE", err) {
		if a, err := u.c.GetAttr(ctx, cr, h); err != nil || a.Size != size+1000 || w.After.Set && w.After.Size != a.Size {
			u.Errorf("ALLOCATE made a size of %d, %v; its answer: %+v", a.Size, err, w.After)
		}
	}
	_, err = u.c.Deallocate(ctx, cr, h, st, 1, 2)
	if may("DEALLOCATE", err) {
		if got := u.read(h, st, 4); got != "h\x00\x00d" {
			u.Errorf("after DEALLOCATE: %q", got)
		}
		u.write(h, st, 0, "head")
	}
	to, tst := u.create("copy")
	from := uint64(0)
	for from < 5 {
		r, err := u.c.Copy(ctx, cr, h, st, from, to, tst, 10+from, 5-from)
		if !may("COPY", err) {
			break
		}
		if r.N == 0 {
			u.Fatal("COPY has copied nothing")
		}
		from += uint64(r.N)
	}
	if from > 0 {
		if got := u.read(to, tst, 100); got != strings.Repeat("\x00", 10)+"head\x00" {
			u.Errorf("copied: %q", got)
		}
	}
	u.close(to, tst)
	u.close(h, st)
	return lacks
}

func isStatus(err error, want nfsclient.Status) bool {
	s, ok := nfsclient.StatusOf(err)
	return ok && s == want
}

// xattrs42: extended attributes of users; false if the server has none.
func xattrs42(u *user4) bool {
	ctx, cr := u.Context(), nfsclient.Cred{}
	h, st := u.create("xattrs")
	defer u.close(h, st)
	_, err := u.c.SetXattr(ctx, cr, h, "one", []byte("1"), nfsclient.XattrCreate)
	if errors.Is(err, nfsclient.ErrNotSupported) {
		return false
	}
	u.must(err)
	if _, err := u.c.SetXattr(ctx, cr, h, "one", []byte("2"), nfsclient.XattrCreate); !isStatus(err, nfsclient.ErrExist) {
		u.Errorf("made twice: %v", err)
	}
	if _, err := u.c.SetXattr(ctx, cr, h, "two", nil, nfsclient.XattrReplace); err == nil {
		u.Error("replaced what is not there")
	}
	large := bytes.Repeat([]byte("large"), 800)
	_, err = u.c.SetXattr(ctx, cr, h, "two", large, nfsclient.XattrEither)
	u.must(err)
	for name, want := range map[string][]byte{"one": []byte("1"), "two": large} {
		if got, err := u.c.GetXattr(ctx, cr, h, name, 1<<16); err != nil || !bytes.Equal(got, want) {
			u.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if _, err := u.c.GetXattr(ctx, cr, h, "none", 100); nfsclient.Errno(err) == 0 {
		u.Error("found what is not there")
	}
	names, err := u.c.ListXattrs(ctx, cr, h)
	if slices.Sort(names); err != nil || !slices.Equal(names, []string{"one", "two"}) {
		u.Errorf("%q, %v", names, err)
	}
	_, err = u.c.RemoveXattr(ctx, cr, h, "one")
	u.must(err)
	if names, err = u.c.ListXattrs(ctx, cr, h); err != nil || !slices.Equal(names, []string{"two"}) {
		u.Errorf("%q, %v", names, err)
	}
	return true
}

// modes4: with an opening for reading alone the server refuses to write, and with one for writing
// alone a read is made all the same.
func modes4(u *user4) {
	h, st := u.create("modes")
	u.write(h, st, 0, "data")
	u.close(h, st)
	ro, wo := u.open(h, nfsclient.OpenRead), u.open(h, nfsclient.OpenWrite)
	v := mem.Vec{u.buf.Seg(0, 4)}
	if _, err := u.c.Write(u.Context(), nfsclient.Cred{}, h, ro, 0, v, nfsclient.FileSync); err == nil {
		u.Error("written to a file that is open for reading")
	}
	if got := u.read(h, wo, 4); got != "data" {
		u.Errorf("%q", got)
	}
	if err := u.set(u.Context(), h, ro, 1, nfsclient.WriteLock, 0, 0); err == nil {
		u.Error("a file that is open for reading is locked for writing")
	}
	u.close(h, ro)
	u.close(h, wo)
	if _, err := u.c.OpenFile(u.Context(), nfsclient.Cred{}, u.root, nfsclient.OpenRead); !isStatus(err, nfsclient.ErrIsDir) && !isStatus(err, nfsclient.ErrInval) {
		u.Errorf("OPEN of a directory: %v", err)
	}
}

// TestGanesha42: nfs-ganesha's FSAL VFS has SEEK, ALLOCATE and DEALLOCATE; COPY and attributes of users
// it has not.
func TestGanesha42(t *testing.T) {
	ganeshas(t, func(_ *ganesha, a, _ *user4) {
		modes4(a)
		if strings.HasSuffix(a.Name(), "4.1") {
			only42(a)
			return
		}
		a.Logf("lacks %v, attributes of users: %v", ranges42(a), xattrs42(a))
	})
}
