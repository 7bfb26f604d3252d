package doctor

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nlm"
)

func (x *fakeExport) OpenFile(_ context.Context, _ nfsclient.Cred, h nfsclient.Handle, _ nfsclient.OpenMode) (nfsclient.Opened, error) {
	x.opens++
	return nfsclient.Opened{State: h}, nil
}

func (x *fakeExport) CloseFile(_ context.Context, _ nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState) error {
	if st == nfsclient.OpenState(h) {
		x.opens--
	}
	return nil
}

// SetLock locks what is open, as NFSv4 has it.
func (x *fakeExport) SetLock(_ context.Context, _ nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, _ nfsclient.LockOwner, l nfsclient.Lock) error {
	if st != nfsclient.OpenState(h) {
		return &nfsclient.Error{Op: "LOCK", Status: nfsclient.ErrInval}
	}
	if x.lock != nil {
		return x.lock
	}
	if l.Type == nfsclient.Unlocked {
		delete(x.held, h)
	} else {
		x.held[h] = true
	}
	return nil
}

func (x *fakeExport) WaitLock(context.Context, nfsclient.Cred, nfsclient.Handle, nfsclient.OpenState, nfsclient.LockOwner, nfsclient.Lock) error {
	panic("the doctor waits for a lock")
}

func (x *fakeExport) TestLock(_ context.Context, _ nfsclient.Cred, h nfsclient.Handle, _ nfsclient.OpenState, _ nfsclient.LockOwner, l nfsclient.Lock) (*nfsclient.Lock, error) {
	x.tested = append(x.tested, h)
	if x.lock == nil && h == "top" {
		return nil, &nlm.Error{Failure: nlm.Refused, Errno: syscall.ENOLCK, Why: "the server refused the lock"}
	}
	return &l, x.lock // somebody else has it, which is none of the doctor's business
}

// TestLocks: what keeps locks from working is a warning, with what to do; and only a file
// that the doctor has made is locked.
func TestLocks(t *testing.T) {
	typed := func(f nlm.Failure) error { return &nlm.Error{Failure: f, Errno: syscall.ENOLCK, Why: "no; do it"} }
	readable := []nfsclient.Dirent{there("file", 5)}
	for _, c := range []struct {
		name         string
		change       func(r *rig, x *fakeExport)
		status       Status
		says, remedy string
		tested       int
	}{
		{"taken", func(*rig, *fakeExport) {}, OK, "taken and given back", "", 0},
		{"local", func(r *rig, x *fakeExport) { r.Locks, x.lock = false, typed(nlm.Unreachable) }, Skipped, "local", "", 0},
		{"not registered", func(_ *rig, x *fakeExport) { x.lock = typed(nlm.NotRegistered) }, Warning, "no", "do it", 0},
		{"refused", func(_ *rig, x *fakeExport) { x.lock = typed(nlm.Refused) }, Warning, "no", "do it", 0},
		{"a file of somebody's", func(r *rig, x *fakeExport) { r.Write, x.there = false, readable }, OK, "none was taken", "", 1},
		{"refused for that", func(r *rig, x *fakeExport) { r.Write, x.there, x.lock = false, readable, typed(nlm.Refused) }, Warning, "no", "do it", 1},
		{"that may not be read", func(r *rig, x *fakeExport) {
			r.Write, x.there, x.rights = false, readable, nfsclient.AccessLookup
		}, Skipped, "the lock manager answers", "", 1},
		{"no file", func(r *rig, _ *fakeExport) { r.Write = false }, Skipped, "the lock manager answers", "", 1},
		{"no file, no lock manager", func(r *rig, x *fakeExport) { r.Write, x.lock = false, typed(nlm.Unreachable) }, Warning, "no", "do it", 1},
		{"as well as no data", func(_ *rig, x *fakeExport) { x.garbled = true }, OK, "taken and given back", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			x := r.rdma.export
			c.change(r, x)
			report := r.examine(t)
			if st := find(t, report, "The export /export", "locks"); st.Status != c.status || !strings.Contains(st.Detail, c.says) || !strings.Contains(st.Remedy, c.remedy) {
				t.Errorf("%+v", st)
			}
			if report.OK == x.garbled {
				t.Errorf("%v: %s", report.OK, report.Verdict)
			}
			if len(x.held) > 0 || x.opens != 0 || len(x.tested) != c.tested {
				t.Errorf("%d locks and %d openings left, %q tested", len(x.held), x.opens, x.tested)
			}
		})
	}
}
