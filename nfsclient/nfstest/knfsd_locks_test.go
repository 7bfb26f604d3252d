//go:build knfsd

package nfstest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/nfsclient/nlm"
	nlmwire "github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/rpcbindtest"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/tcp"
)

// lockLog is what the client of a test has logged.
type lockLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockLog) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), s)
}

// await waits for n times a line; a guest under emulation may take its time.
func (l *lockLog) await(t *testing.T, s string, n int) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); l.count(s) < n; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the log does not say %q %d times:\n%s", s, n, &l.b)
		}
	}
}

// TestLocksKnfsd: rdmafs and the Linux client exclude each other in both directions, at
// a Linux server, whose restart the holder survives. The port of the lock manager is rpcbind's word, mapped to where the host reaches
// it.
func TestLocksKnfsd(t *testing.T) {
	g := knfsd.StartTest(t, knfsd.Config{RDMA: []knfsd.Service{}})
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	guest := func(command string) string {
		t.Helper()
		out, err := g.Check(ctx, command)
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		return out
	}
	guest("touch /export/f && chmod 666 /export/f && mkdir -p /mnt/l && " +
		"mount -t nfs -o vers=3,proto=tcp,port=2049,mountport=20048,mountproto=tcp " + g.GuestAddr().String() + ":/export /mnt/l")
	// linux reports whether the Linux client gets the whole file.
	linux := func() bool {
		t.Helper()
		_, code, err := g.Run(ctx, "flock -n /mnt/l/f true")
		if err != nil {
			t.Fatal(err)
		}
		return code == 0
	}

	log := &lockLog{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	var nfs *reconnect.Caller
	locks := nlm.New(nlm.Config{
		// The server does not find this rpcbind: a LOCK that it says to have queued comes to
		// its end by polling.
		Rpcbind: rpcbindtest.Start(t, "127.0.0.1:0").Addr,
		Probe: func(ctx context.Context) error {
			return nfs.Call(ctx, &transport.Call{Prog: wire.NFSProgram, Vers: wire.NFSVersion, Proc: wire.ProcNull})
		},
		Host: "guest", Addr: g.Addr(knfsd.NLM).Addr(), MachineName: "here", Timeo: time.Minute, Retrans: 2, JournalDir: t.TempDir(), Log: logger,
		Port: func(ctx context.Context) (uint16, error) {
			port, err := nfs3.Port(ctx, netip.MustParseAddr("192.0.2.1"), nlmwire.Program, nlmwire.Version,
				func(ctx context.Context, _ netip.AddrPort) (transport.Caller, error) {
					return dialTCP(ctx, g.Addr(knfsd.Rpcbind))
				})
			if err == nil && port == 32803 {
				port = g.Addr(knfsd.NLM).Port()
			}
			return port, err
		},
		Dialer: func(to netip.AddrPort) (transport.Dialer, error) { return tcp.NewDialer(tcp.Config{Addr: to}) },
	})
	d, err := tcp.NewDialer(tcp.Config{Addr: g.Addr(knfsd.TCP)})
	if err != nil {
		t.Fatal(err)
	}
	// The lock manager of this guest, whose kernel is a client as well, keeps its
	// connections when NFS is restarted.
	nfs = reconnect.New(&nlm.Watched{Dialer: d, Lost: locks.Restarted}, reconnect.Config{Server: "guest"})
	c, err := nfs3.Mount(ctx, nfs3.Config{Host: "guest", Addr: g.Addr(knfsd.Mountd).Addr(), Export: "/export", Caller: nfs, Dial: dialTCP,
		MountPort: g.Addr(knfsd.Mountd).Port(), Log: logger, Locks: locks})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
		if !linux() {
			t.Error("Close has left a lock")
		}
	}()
	root, _ := c.Root()
	found, err := c.Lookup(ctx, nfsclient.Cred{}, root, "f")
	if err != nil {
		t.Fatal(err)
	}
	set := func(owner nfsclient.LockOwner, typ nfsclient.LockType, first, last uint64) error {
		return c.SetLock(ctx, nfsclient.Cred{}, found.Handle, nil, owner, nfsclient.Lock{Type: typ, First: first, Last: last})
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const end = ^uint64(0)

	// Ours first.
	must(set(1, nfsclient.WriteLock, 0, end))
	if linux() {
		t.Error("the Linux client has what we hold")
	}
	if err := set(2, nfsclient.ReadLock, 5, 5); !errors.Is(err, nfsclient.ErrLocked) {
		t.Errorf("another owner of ours: %v", err)
	}
	l, err := c.TestLock(ctx, nfsclient.Cred{}, found.Handle, nil, 2, nfsclient.Lock{Type: nfsclient.WriteLock, First: 7, Last: 7})
	if err != nil || l == nil || l.Type != nfsclient.WriteLock {
		t.Errorf("TestLock: %+v, %v", l, err)
	}
	must(set(1, nfsclient.Unlocked, 0, end))
	if !linux() {
		t.Error("the Linux client does not get what we gave back")
	}

	// The Linux client's first. We wait for it, and have it when it is given back.
	guest("rm -f /tmp/held && (flock /mnt/l/f sh -c 'touch /tmp/held; while [ -e /tmp/held ]; do sleep 0.1; done' >/dev/null 2>&1 </dev/null &) && while [ ! -e /tmp/held ]; do sleep 0.1; done")
	if err := set(1, nfsclient.ReadLock, 0, 0); !errors.Is(err, nfsclient.ErrLocked) {
		t.Errorf("the Linux client holds it: %v", err)
	}
	done := make(chan error, 1)
	wait := func() {
		done <- c.WaitLock(ctx, nfsclient.Cred{}, found.Handle, nil, 1, nfsclient.Lock{Type: nfsclient.WriteLock, First: 0, Last: 99})
	}
	go wait()
	guest("rm /tmp/held")
	must(<-done)
	must(set(1, nfsclient.ReadLock, 200, end))
	if linux() {
		t.Error("the Linux client has what we hold")
	}

	// Restarted, and the grace period is ended at once: the locks are reclaimed within it
	// or taken again after it.
	must(g.RestartServer(ctx))
	log.await(t, "0 lost", 1)
	if linux() {
		t.Error("after a restart the Linux client has what we hold")
	}
	if err := set(2, nfsclient.ReadLock, 5, 5); !errors.Is(err, nfsclient.ErrLocked) {
		t.Errorf("after a restart another owner of ours: %v", err)
	}

	// Once more, right after that, and twice: without a call of ours, each is noticed.
	must(g.RestartServer(ctx))
	log.await(t, "0 lost", 2)
	must(g.RestartServer(ctx))
	log.await(t, "0 lost", 3)
	if linux() {
		t.Error("after further restarts the Linux client has what we hold")
	}

	must(set(1, nfsclient.Unlocked, 0, end))
	if !linux() {
		t.Error("the Linux client does not get what we gave back")
	}
	must(set(1, nfsclient.WriteLock, 0, 9)) // for Close
}
