package nfstest

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/callback"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/session"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/transport/tcp"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// backChannel is what a connection needs on which a server may call back.
type backChannel struct {
	service *callback.Service
	binder  session.Binder
}

func newBackChannel() *backChannel {
	return &backChannel{service: callback.New(callback.Config{})}
}

// config is that of connections that belong to it.
func (b *backChannel) config(to netip.AddrPort) reconnect.Config {
	return reconnect.Config{Server: to.String(), Establish: b.binder.Establish, Keep: b.binder.Keep}
}

// backTCP connects by TCP, with a back channel.
func backTCP(t *testing.T, to netip.AddrPort) (transport.Caller, *backChannel) {
	t.Helper()
	back := newBackChannel()
	d, err := tcp.NewDialer(tcp.Config{Addr: to, Callbacks: back.service})
	if err != nil {
		t.Fatal(err)
	}
	return reconnect.New(d, back.config(to)), back
}

// backRDMA is backTCP over iWARP.
func backRDMA(t *testing.T, to netip.AddrPort) (transport.Caller, *backChannel) {
	t.Helper()
	dev := iwarp.Open(iwarp.Config{})
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	back := newBackChannel()
	d := rpcrdma.NewDialer(rpcrdma.DialerConfig{Device: dev, Addr: to, Callbacks: back.service, CallbackCredits: 4})
	return reconnect.New(d, back.config(to)), back
}

// made makes a file with contents, and closes it.
func (u *user4) made(name, contents string) nfsclient.Handle {
	u.Helper()
	h, st := u.create(name)
	u.write(h, st, 0, contents)
	u.close(h, st)
	return h
}

// unasked runs f, and returns how many calls it made.
func (u *user4) unasked(f func()) int64 {
	before := u.calls.n.Load()
	f()
	return u.calls.n.Load() - before
}

func (u *user4) attr(h nfsclient.Handle) nfsclient.Attr {
	u.Helper()
	a, err := u.c.GetAttr(u.Context(), nfsclient.Cred{}, h)
	u.must(err)
	return a
}

// reopened is how many calls it takes to open a file for reading once more, to ask for its attributes and to close it.
func (u *user4) reopened(h nfsclient.Handle) int64 {
	u.Helper()
	return u.unasked(func() {
		st := u.open(h, nfsclient.OpenRead)
		u.attr(h)
		u.close(h, st)
	})
}

// held opens a file for reading, and reports whether the server has given a delegation of it.
func (u *user4) held(h nfsclient.Handle) bool {
	u.Helper()
	u.close(h, u.open(h, nfsclient.OpenRead))
	return u.reopened(h) == 0
}

// delegations4 is what a read delegation changes. change appends to a file from elsewhere, and returns once that is
// done. given is false if the server gives none.
func delegations4(u *user4, change func(ctx context.Context, name, more string) error) (given bool) {
	ctx, cancel := context.WithTimeout(u.Context(), 2*time.Minute)
	defer cancel()
	h := u.made("read", "before")
	if !u.held(h) {
		return false
	}
	st := u.open(h, nfsclient.OpenRead)
	if got := u.read(h, st, 100); got != "before" {
		u.Errorf("read by a delegation: %q", got)
	}
	other, err := u.c.OpenFile(ctx, nfsclient.Cred{UID: 4711, GID: 4711}, h, nfsclient.OpenRead)
	u.must(err)
	u.must(u.c.CloseFile(ctx, nfsclient.Cred{UID: 4711, GID: 4711}, h, other.State))
	if n := u.reopened(h); n != 0 {
		u.Errorf("opened once more by calls: %d, after another user has opened the file", n)
	}

	// Recalled while the file is open by the delegation alone.
	u.must(change(ctx, u.name("read"), " and after"))
	if n := u.lost.recalls(h); n != 1 {
		u.Errorf("recalled %d times", n)
	}
	if a := u.attr(h); a.Size != 16 {
		u.Errorf("%d bytes after the recall", a.Size)
	}
	if got := u.read(h, st, 100); got != "before and after" {
		u.Errorf("read after the recall: %q", got)
	}
	u.close(h, st)

	// A change of our own returns it, and what comes after it is new.
	own := u.made("own", "x")
	if !u.held(own) {
		u.Error("no delegation of a second file")
	}
	_, err = u.c.SetAttr(ctx, nfsclient.Cred{}, own, nil, nfsclient.SetAttr{Mode: ptr(uint32(0o600))})
	u.must(err)
	if a := u.attr(own); a.Mode != 0o600 {
		u.Errorf("mode %#o after a change", a.Mode)
	}
	w := u.open(own, nfsclient.OpenRead|nfsclient.OpenWrite)
	u.write(own, w, 1, "y")
	if n := u.unasked(func() { u.close(own, u.open(own, nfsclient.OpenRead)) }); n == 0 {
		u.Error("a file was opened locally that is open for writing")
	}
	if a := u.attr(own); a.Size != 2 {
		u.Errorf("%d bytes after our own WRITE", a.Size)
	}
	u.close(own, w)

	// Locks need an opening that the server knows.
	locked := u.made("locked", "x")
	if !u.held(locked) {
		u.Error("no delegation of a third file")
	}
	l := u.open(locked, nfsclient.OpenRead)
	u.must(u.set(ctx, locked, l, 1, nfsclient.ReadLock, 0, 9))
	u.must(u.set(ctx, locked, l, 1, nfsclient.Unlocked, 0, 9))
	u.close(locked, l)

	// What a link count says is not believed after names have gone.
	linked := u.made("linked", "x")
	_, _, err = u.c.Link(ctx, nfsclient.Cred{}, linked, u.root, u.name("link"))
	u.must(err)
	if !u.held(linked) {
		u.Error("no delegation of a fourth file")
	}
	_, err = u.c.Remove(ctx, nfsclient.Cred{}, u.root, u.name("link"))
	u.must(err)
	if a := u.attr(linked); a.Nlink != 1 {
		u.Errorf("%d links", a.Nlink)
	}
	return true
}

// notified4: a lock that is waited for is had when the server calls back, or without that. It returns how often
// the server did.
func notified4(a, b *user4) uint64 {
	ctx, cancel := context.WithTimeout(a.Context(), time.Minute)
	defer cancel()
	h, st := a.create("wait")
	a.must(a.set(ctx, h, st, 1, nfsclient.WriteLock, 0, 9))
	bst := b.open(h, nfsclient.OpenRead|nfsclient.OpenWrite)
	had := make(chan error, 1)
	before, asked := b.calls.Stats().Callbacks, b.calls.ended.Load()
	go func() {
		had <- b.c.WaitLock(ctx, nfsclient.Cred{}, h, bst, 1, nfsclient.Lock{Type: nfsclient.WriteLock, First: 0, Last: 9})
	}()
	// The server has refused a few times, and is asked again after pauses that grow to seconds.
	for b.calls.ended.Load() < asked+5 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	a.must(a.set(ctx, h, st, 1, nfsclient.Unlocked, 0, 9))
	a.must(<-had)
	a.must(b.set(ctx, h, bst, 1, nfsclient.Unlocked, 0, 9))
	b.close(h, bst)
	a.close(h, st)
	return b.calls.Stats().Callbacks - before
}

// TestGanesha4BackChannel is nfs-ganesha with a back channel, over which it gives no delegations (version 4.3 with its
// VFS): what works without one works with one.
func TestGanesha4BackChannel(t *testing.T) {
	inGanesha(t, func(t *testing.T, _ *ganesha) {
		for version, minor := range minors {
			t.Run(version, func(t *testing.T) {
				user := func() *user4 {
					nfs, back := backTCP(t, netip.MustParseAddrPort(ganeshaAddr))
					return newBackUser4(t, nfs, back, minor, "/export/sub")
				}
				a, b := user(), user()
				locks4(a, b)
				h := a.made("read", "contents")
				st := a.open(h, nfsclient.OpenRead)
				if got := a.read(h, st, 100); got != "contents" {
					t.Errorf("%q", got)
				}
				a.close(h, st)
				t.Logf("%d callbacks, local opens: %v", a.calls.Stats().Callbacks, a.held(h))
			})
		}
	})
}
