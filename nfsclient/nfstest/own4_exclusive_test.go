package nfstest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
)

// TestOwn4ExclusiveCrash: a server makes a file, or gives it its attributes, and crashes before it says so. It has lost the session,
// and yet the file is found to be the one that was asked for. Another's is not.
func TestOwn4ExclusiveCrash(t *testing.T) {
	eachMinor(t, func(t *testing.T, minor uint32) {
		var armed atomic.Pointer[string] // an operation, after whose compound the server crashes
		var due atomic.Bool
		s, at, _ := serveConfig4(t, nil, nfsd.Export{}, nfsd.Config{Faults: &nfsd.Faults{
			Operation: func(_ context.Context, op wire.Operation) nfsclient.Status {
				if name := op.Op().String(); armed.Load() != nil && *armed.Load() == name {
					armed.Store(nil)
					due.Store(true)
				}
				return wire.OK
			},
			After: func(context.Context, nfsd.Event) nfsd.Action {
				if due.CompareAndSwap(true, false) {
					return nfsd.Crash
				}
				return nfsd.Proceed
			},
		}})
		u := newUser4(t, dialHard(t, at), minor, "/below/export")
		create := func(name, crash string) (nfsclient.Made, error) {
			if crash != "" {
				armed.Store(&crash)
			}
			crashes := s.Stats().Crashes
			m, err := u.c.Create(u.Context(), nfsclient.Cred{}, u.root, name, nfsclient.SetAttr{Mode: ptr(uint32(0o640))}, true, nfsclient.OpenWrite)
			if got := s.Stats().Crashes - crashes; crash != "" && got != 1 {
				t.Errorf("%s: %d crashes", name, got)
			}
			return m, err
		}
		before := s.Stats().Operations["SETATTR"]
		for n, crash := range []string{"OPEN", "SETATTR", "", "", "OPEN", ""} {
			name := fmt.Sprintf("exclusive %d", n)
			m, err := create(name, crash)
			if err != nil {
				t.Errorf("%s, crash after %q: %v", name, crash, err)
				continue
			}
			u.write(m.Handle, m.State, 0, "contents")
			if a, err := u.c.GetAttr(u.Context(), nfsclient.Cred{}, m.Handle); err != nil || a.Mode != 0o640 || a.Size != 8 {
				t.Errorf("%s: %+v, %v", name, a, err)
			}
			u.close(m.Handle, m.State)
		}
		// Until a call has shown the clock of the server, and the next that it keeps marks, each costs a SETATTR.
		if n := s.Stats().Operations["SETATTR"] - before; n != 4 && n != 5 {
			t.Errorf("%d times SETATTR", n)
		}
		// Another client makes the file first.
		other := newUser4(t, dialHard(t, at), minor, "/below/export")
		taken, err := other.c.Create(other.Context(), nfsclient.Cred{}, other.root, "taken", nfsclient.SetAttr{}, false, nfsclient.OpenWrite)
		if err != nil {
			t.Fatal(err)
		}
		for _, crash := range []string{"", "OPEN"} {
			if _, err := create("taken", crash); !isStatus(err, nfsclient.ErrExist) {
				t.Errorf("another's file, crash after %q: %v", crash, err)
			}
		}
		other.close(taken.Handle, taken.State)
	})
}
