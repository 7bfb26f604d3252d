package mount

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
)

// TestServerCrashes copies a tree while the server loses, again and again, its
// connections, the replies it remembers, and every write not committed: what
// fsync and close acknowledged must be there in the end.
func TestServerCrashes(t *testing.T) {
	for _, proto := range []string{"rdma", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			var calls, crashes atomic.Int64
			s := startServer(t, serverOptions{lossy: true, faults: &nfsd.Faults{
				Before: func(_ context.Context, e nfsd.Event) nfsd.Action {
					if e.Prog == nfsProgram && calls.Add(1)%97 == 0 && crashes.Add(1) <= 12 {
						return nfsd.Crash
					}
					return nfsd.Proceed
				},
			}})
			m := s.mount(t, proto, "timeo=20")
			from := SourceTree(t)
			copyRetrying(t, from, filepath.Join(m.Dir, "tree"))
			large := make([]byte, 24<<20+5)
			rand.NewChaCha8([32]byte{7}).Read(large)
			if err := os.WriteFile(filepath.Join(m.Dir, "large"), large, 0o644); err != nil {
				t.Fatal(err)
			}
			if crashes.Load() == 0 {
				t.Fatal("the server never crashed")
			}
			if m.Stats(t).Connects < 2 {
				t.Error("the mount never reconnected")
			}
			m.Umount(t)
			SameTree(t, filepath.Join(s.export, "tree"), from)
			if got, err := os.ReadFile(filepath.Join(s.export, "large")); err != nil || !bytes.Equal(got, large) {
				t.Errorf("large file: %d bytes on the server, or other content; %v", len(got), err)
			}
			t.Logf("%d crashes in %d calls", crashes.Load(), calls.Load())
		})
	}
}

const nfsProgram = 100003

// copyRetrying copies a tree. A server that forgot its replies answers a
// resent MKDIR with EEXIST and NFSv3 has no way to tell, so a directory that is
// there is taken for made.
func copyRetrying(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		if d.IsDir() {
			if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
				return err
			}
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(at, b, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFsyncSurvivesCrash: after fsync the bytes are there though the server
// crashes at once; what was written and not synced may be written again.
func TestFsyncSurvivesCrash(t *testing.T) {
	s := startServer(t, serverOptions{lossy: true})
	m := s.mount(t, "rdma", "")
	f, err := os.Create(filepath.Join(m.Dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var want []byte
	for i := range 20 {
		line := bytes.Repeat([]byte{byte('a' + i)}, 10_000+i)
		if _, err := f.Write(line); err != nil {
			t.Fatal(err)
		}
		want = append(want, line...)
		if i%3 == 0 {
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
			if err := s.Crash(); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(s.export, "f")); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("after sync %d and a crash: %d of %d bytes on the server, %v", i, len(got), len(want), err)
			}
		}
	}
}

// TestMarkedAfterCrash: a server goes down with all memory of a CREATE that it has not
// answered. The file that this CREATE has made is known again by its mark; one that
// another client has made meanwhile is not taken for it.
func TestMarkedAfterCrash(t *testing.T) {
	var export string
	var before, after atomic.Bool // have the next CREATE end so
	s := startServer(t, serverOptions{clockAhead: 3600, faults: &nfsd.Faults{
		Before: func(_ context.Context, e nfsd.Event) nfsd.Action {
			if e.Prog == nfsProgram && e.Proc == wire.ProcCreate && before.Swap(false) {
				if err := os.WriteFile(filepath.Join(export, "theirs"), []byte("theirs"), 0o644); err != nil {
					t.Error(err)
				}
				return nfsd.Crash
			}
			return nfsd.Proceed
		},
		After: func(_ context.Context, e nfsd.Event) nfsd.Action {
			if e.Prog == nfsProgram && e.Proc == wire.ProcCreate && after.Swap(false) {
				return nfsd.Crash
			}
			return nfsd.Proceed
		},
	}})
	export = s.export
	m := s.mount(t, "rdma", "timeo=20")
	provesMarks(t, s, m.Dir)
	exclusive := func(name string) error {
		fd, err := syscall.Open(filepath.Join(m.Dir, name), syscall.O_CREAT|syscall.O_EXCL|syscall.O_WRONLY, 0o640)
		if err != nil {
			return err
		}
		return syscall.Close(fd)
	}
	procs := s.Stats().Procs
	after.Store(true)
	if err := exclusive("ours"); err != nil {
		t.Errorf("a file whose reply was lost: %v", err)
	}
	if err := exclusive("ours"); err != syscall.EEXIST {
		t.Errorf("again: %v", err)
	}
	now := s.Stats().Procs
	if creates, sets := now["CREATE"]-procs["CREATE"], now["SETATTR"]-procs["SETATTR"]; creates != 2 || sets != 0 {
		t.Errorf("%d CREATEs and %d SETATTRs, want two transmissions of one CREATE", creates, sets)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(filepath.Join(m.Dir, "ours"), &st); err != nil || st.Mode&0o777 != 0o640 {
		t.Errorf("mode %o, %v", st.Mode, err)
	}
	if d := time.Duration(st.Atim.Nano() - st.Ctim.Nano()); d.Abs() > patience {
		t.Errorf("the access time is %v off the server's clock", d)
	}
	before.Store(true)
	if err := exclusive("theirs"); err != syscall.EEXIST {
		t.Errorf("a file that another has made: %v", err)
	}
	if before.Load() {
		t.Error("no CREATE was sent")
	}
}

// TestDroppedReplies: replies that never come are asked for again under the same
// XID, and the server's memory of replies keeps exclusive things exclusive.
func TestDroppedReplies(t *testing.T) {
	var n atomic.Int64
	s := startServer(t, serverOptions{faults: &nfsd.Faults{
		After: func(_ context.Context, e nfsd.Event) nfsd.Action {
			if e.Prog == nfsProgram && !e.Replayed && n.Add(1)%20 == 0 {
				return nfsd.Drop
			}
			return nfsd.Proceed
		},
	}})
	m := s.mount(t, "rdma", "timeo=2,noac")
	for i := range 40 {
		name := filepath.Join(m.Dir, fmt.Sprint("f", i))
		fd, err := syscall.Open(name, syscall.O_CREAT|syscall.O_EXCL|syscall.O_WRONLY, 0o644)
		if err != nil {
			t.Fatalf("exclusive create: %v", err)
		}
		if err := errors.Join(syscall.Close(fd), os.Rename(name, name+"x"), os.Mkdir(name, 0o755), os.Remove(name)); err != nil {
			t.Fatal(err)
		}
	}
	if st := m.Stats(t); st.Resends == 0 {
		t.Errorf("nothing was resent: %+v", st)
	}
}

// TestSoftMountGivesUp: EIO after timeo × retrans, and the mount can be ended.
func TestSoftMountGivesUp(t *testing.T) {
	var silent atomic.Bool
	s := startServer(t, serverOptions{faults: &nfsd.Faults{
		Before: func(context.Context, nfsd.Event) nfsd.Action {
			if silent.Load() {
				return nfsd.Drop
			}
			return nfsd.Proceed
		},
	}})
	for _, proto := range []string{"rdma", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			m := s.mount(t, proto, "soft,timeo=2,retrans=1,noac")
			silent.Store(true)
			defer silent.Store(false)
			if _, err := os.Stat(filepath.Join(m.Dir, "x")); !errors.Is(err, syscall.EIO) {
				t.Errorf("stat: %v, want EIO", err)
			}
			silent.Store(false)
			// On a busy machine 400 ms may be too short for an answer, too.
			for start := time.Now(); ; {
				err := os.WriteFile(filepath.Join(m.Dir, "x"), []byte("again"), 0o644)
				if err == nil {
					break
				}
				if !errors.Is(err, syscall.EIO) || time.Since(start) > patience {
					t.Fatalf("when the server is back: %v", err)
				}
			}
		})
	}
}

// TestExclusiveAfterCrash: the server makes the file, and goes down before it
// answers, with all memory of the call. When the call is sent again, the server
// must know its own file by the verifier (RFC 1813 section 3.3.8).
func TestExclusiveAfterCrash(t *testing.T) {
	for _, proto := range []string{"rdma", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			var crashes atomic.Int64
			s := startServer(t, serverOptions{faults: &nfsd.Faults{
				After: func(_ context.Context, e nfsd.Event) nfsd.Action {
					if e.Prog == nfsProgram && e.Proc == wire.ProcCreate && crashes.Add(1)%2 == 1 {
						return nfsd.Crash
					}
					return nfsd.Proceed
				},
			}})
			m := s.mount(t, proto, "timeo=20")
			for i := range 4 {
				name := filepath.Join(m.Dir, fmt.Sprint("f", i))
				f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteString(name); err != nil {
					t.Error(err)
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
				if _, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640); !errors.Is(err, os.ErrExist) {
					t.Errorf("another exclusive create of %s: %v, want EEXIST", name, err)
				}
				st, err := os.Stat(filepath.Join(s.export, filepath.Base(name)))
				if err != nil || st.Mode().Perm() != 0o640 || st.Size() != int64(len(name)) {
					t.Errorf("on the server: %v, %v", st, err)
				}
			}
			if n := crashes.Load(); n < 8 {
				t.Errorf("%d CREATEs came, want two for each file", n)
			}
		})
	}
}
