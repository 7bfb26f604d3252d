package nlm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/nfsclient/rpcbind"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
)

// ganeshaEnv names the directory of the server, for the process that is its client.
const ganeshaEnv = "RDMAFS_GANESHA"

const (
	ganeshaServer = "192.0.2.1"
	ganeshaClient = "192.0.2.2"
)

// ganeshaScript runs a server in one network, and this test as its client in another, each
// with an rpcbind of its own.
const ganeshaScript = `
set -e
dir=$1; shift
ip link set lo up
mount -t tmpfs tmpfs /run
rpcbind -f -w &
rpc.statd -F -P $dir/statd &
# The server asks for it once, when it starts.
until rpcinfo -T tcp 127.0.0.1 status >/dev/null 2>&1; do sleep 0.05; done
mkfifo $dir/go
unshare --mount --net --propagation private sh -c '
	set -e
	dir=$1; shift
	ip link set lo up
	mount -t tmpfs tmpfs /run
	read -r _ < $dir/go
	ip addr add ` + ganeshaClient + `/24 dev c
	ip link set c up
	rpcbind -f -w &
	exec "$@"
' client $dir "$@" &
client=$!
ip link add s type veth peer name c
until ip link set c netns $client 2>/dev/null && ! ip link show c >/dev/null 2>&1; do sleep 0.05; done
ip addr add ` + ganeshaServer + `/24 dev s
ip link set s up
mkdir -p /var/run/ganesha
ganesha.nfsd -F -f $dir/ganesha.conf -L $dir/ganesha.log -p $dir/ganesha.pid &
echo go > $dir/go
wait $client
`

// TestGanesha: nfs-ganesha queues what waits, finds us by our rpcbind, and wakes the
// waiters.
func TestGanesha(t *testing.T) {
	if dir := os.Getenv(ganeshaEnv); dir != "" {
		askGanesha(t)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can run nfs-ganesha")
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	for _, p := range []string{"ganesha.nfsd", "rpcbind", "rpcinfo", "rpc.statd", "unshare", "ip", "mount"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed (Debian: nfs-ganesha, nfs-ganesha-vfs, nfs-common, rpcbind)", p)
		}
	}
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"data", "statd/sm", "statd/sm.bak"} {
		must(os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	must(os.WriteFile(filepath.Join(dir, "data", "file"), []byte("data"), 0o666))
	conf := fmt.Sprintf(`NFS_CORE_PARAM { Protocols = 3; Enable_NLM = true; Enable_RQUOTA = false; Enable_UDP = false; }
NFS_KRB5 { Active_krb5 = false; }
NFSv4 { Graceless = true; RecoveryRoot = "%[1]s"; }
EXPORT {
	Export_Id = 1; Path = "%[1]s/data"; Pseudo = "/export"; Access_Type = None; Protocols = 3; Transports = TCP; SecType = sys;
	FSAL { Name = VFS; }
	CLIENT { Clients = 192.0.2.0/24; Access_Type = RW; Squash = No_Root_Squash; Protocols = 3; }
}
LOG { Default_Log_Level = EVENT; }
`, dir)
	must(os.WriteFile(filepath.Join(dir, "ganesha.conf"), []byte(conf), 0o644))
	cmd := exec.Command("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
		"sh", "-c", ganeshaScript, "server", dir, os.Args[0], "-test.run", "^TestGanesha$", "-test.v")
	cmd.Env = append(os.Environ(), ganeshaEnv+"="+dir)
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "unshare: ") {
		t.Skipf("this machine does not let us have a network of our own: %s", out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestGanesha") {
		log, _ := os.ReadFile(filepath.Join(dir, "ganesha.log"))
		t.Errorf("%v\n%s\nganesha:\n%s", err, out, log)
	}
	t.Logf("%s", out)
}

// askGanesha is the client.
func askGanesha(t *testing.T) {
	server := netip.MustParseAddr(ganeshaServer)
	dial := func(ctx context.Context, to netip.AddrPort) (transport.Caller, error) {
		d, err := dialTCP(to)
		if err != nil {
			return nil, err
		}
		c := reconnect.New(d, reconnect.Config{Soft: true, Timeo: time.Second, Retrans: 1})
		if err := c.Connect(ctx); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return c, nil
	}
	r := &rig{t: t}
	var m *nfs3.Client
	r.await("the server", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		port, err := nfs3.Port(ctx, server, wire.Program, wire.Version, dial)
		if err != nil || port == 0 {
			return false
		}
		caller, err := dial(ctx, netip.AddrPortFrom(server, 2049))
		if err != nil {
			return false
		}
		dir := os.Getenv(ganeshaEnv)
		m, err = nfs3.Mount(ctx, nfs3.Config{Host: "ganesha", Addr: server, Export: dir + "/data", Caller: caller, Dial: dial})
		if err != nil {
			_ = caller.Close()
		}
		return err == nil
	})
	defer m.Close(context.Background())
	root, _ := m.Root()
	found, err := m.Lookup(t.Context(), nfsclient.Cred{}, root, "file")
	if err != nil {
		t.Fatal(err)
	}
	r.file = found.Handle
	r.await("rpcbind", func() bool {
		_, err := os.Stat(rpcbind.Socket)
		return err == nil
	})
	// Polling is of no help: it begins when the test has long failed.
	const never = time.Hour
	open := func(at string) *Client {
		return New(Config{Host: "ganesha", Addr: server, Dialer: dialTCP, MachineName: ganeshaClient, Timeo: time.Minute, Retrans: 2,
			Port: func(ctx context.Context) (uint16, error) {
				return nfs3.Port(ctx, server, wire.Program, wire.Version, dial)
			},
			Log:     slog.New(slog.NewTextHandler(&r.log, nil)),
			Rpcbind: at, firstPause: never, lastPause: never, blockedPause: never})
	}
	a, c := open(""), open(rpcbind.Socket)
	defer r.close(a)
	defer r.close(c)
	c.attend()
	r.await("callbacks", c.mayBlock)
	bounded, cancel := context.WithTimeout(t.Context(), guard)
	defer cancel()
	waits := func(n int) func() bool {
		return func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.hearing.waits) == n
		}
	}
	// The lock may be given back before the LOCK that is to wait for it has come: that one
	// is granted at once, and tells nothing.
	for n := 0; c.LockWait() != "granted"; n++ {
		if n == 1000 {
			t.Fatalf("the server has not called back in %d waits\n%s", n, &r.log)
		}
		r.must(r.set(a, 1, wr, 0, whole))
		done := make(chan error, 1)
		go func() { done <- r.wait(bounded, c, 1, wr, 0, whole) }()
		r.await("waiting", waits(1))
		r.must(r.set(a, 1, un, 0, whole))
		r.must(<-done)
		r.must(r.set(c, 1, un, 0, whole))
	}
	// Several wait, one of which gives up.
	r.must(r.set(a, 1, wr, 0, whole))
	const waiters = 5
	done, given := make(chan error, waiters), make(chan error, 1)
	short, giveUp := context.WithCancel(t.Context())
	go func() { given <- r.wait(short, c, 100, wr, 0, whole) }()
	r.await("waiting", waits(1))
	for n := range nfsclient.LockOwner(waiters) {
		go func() {
			err := r.wait(bounded, c, n, wr, 0, whole)
			if err == nil {
				err = r.set(c, n, un, 0, whole)
			}
			done <- err
		}()
	}
	r.await("all to wait", waits(waiters+1))
	giveUp()
	if err := <-given; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r.must(r.set(a, 1, un, 0, whole))
	for range waiters {
		r.must(<-done)
	}
	if c.LockWait() != "granted" {
		t.Error("polls again")
	}
	t.Logf("log:\n%s", &r.log)
}
