package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/testlog"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/tcp"
)

// ganeshaEnv names the directory of the server, for the process that has a network of its own.
const ganeshaEnv = "RDMAFS_GANESHA_SESSION"

// ganeshaScript makes a network with nothing but lo.
const ganeshaScript = `set -e
ip link set lo up
mount -t tmpfs tmpfs /run
mkdir -p /run/ganesha /var/run/ganesha
exec "$@"`

// TestGanesha: sessions with nfs-ganesha over TCP, with minor versions 1 and 2: many compounds at once, the server
// killed and started again under them with an open file that is reclaimed, an idle session that
// stays, and its end.
func TestGanesha(t *testing.T) {
	if dir := os.Getenv(ganeshaEnv); dir != "" {
		for minor := range uint32(2) {
			t.Run(fmt.Sprintf("4.%d", minor+1), func(t *testing.T) { withGanesha(t, filepath.Join(dir, fmt.Sprint(minor)), minor+1) })
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can run nfs-ganesha")
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	for _, p := range []string{"ganesha.nfsd", "unshare", "ip", "mount"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed (Debian: nfs-ganesha, nfs-ganesha-vfs): no session with a server of somebody else's was tested", p)
		}
	}
	dir := t.TempDir()
	cmd := exec.Command("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
		"sh", "-c", ganeshaScript, "ganesha", os.Args[0], "-test.run", "^TestGanesha$", "-test.v", "-test.timeout", "8m")
	cmd.Env = append(os.Environ(), ganeshaEnv+"="+dir)
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "unshare: ") {
		t.Skipf("this machine does not let us have a network of our own: %s", out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestGanesha (") {
		t.Errorf("%v", err)
	}
	t.Logf("%s", out)
}

// ganesha is a server that can be killed.
type ganesha struct {
	*testing.T
	dir string
	cmd *exec.Cmd
}

func (g *ganesha) start() {
	g.Helper()
	g.cmd = exec.Command("ganesha.nfsd", "-F", "-f", g.dir+"/ganesha.conf", "-L", g.dir+"/ganesha.log", "-p", g.dir+"/ganesha.pid")
	if err := g.cmd.Start(); err != nil {
		g.Fatal(err)
	}
}

func (g *ganesha) kill() {
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait() // it was killed
}

// counting counts SEQUENCEs that are sent alone, which renew the lease.
type counting struct {
	transport.Caller
	lone chan struct{}
}

func (c *counting) Call(ctx context.Context, call *transport.Call) error {
	err := c.Caller.Call(ctx, call)
	// The arguments of SEQUENCE alone take 4 + 4 + 4 + 4 + 16 + 4*4 bytes.
	if err == nil && call.Trip.BytesSent > 0 && call.ReplyMax == 4+4+4+(&wire.Sequence{}).ReplyMax() {
		select {
		case c.lone <- struct{}{}:
		default:
		}
	}
	return err
}

func withGanesha(t *testing.T, dir string, minor uint32) {
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o777); err != nil {
		t.Fatal(err)
	}
	const lease = 6
	conf := fmt.Sprintf(`NFS_CORE_PARAM { Protocols = 4; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; NFS_Port = %[3]d; }
NFS_KRB5 { Active_krb5 = false; }
NFSv4 { Graceless = false; Lease_Lifetime = %[2]d; Grace_Period = 2%[2]d; RecoveryRoot = "%[1]s"; Minor_Versions = 1, 2; }
EXPORT {
	Export_Id = 1; Path = "%[1]s/data"; Pseudo = "/export"; Access_Type = RW; Protocols = 4; Transports = TCP; SecType = sys; Squash = No_Root_Squash;
	FSAL { Name = VFS; }
}
LOG { Default_Log_Level = EVENT; }
`, dir, lease, 2049+minor)
	if err := os.WriteFile(filepath.Join(dir, "ganesha.conf"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	g := &ganesha{T: t, dir: dir}
	g.start()
	t.Cleanup(func() {
		g.kill()
		if t.Failed() {
			log, _ := os.Open(filepath.Join(dir, "ganesha.log"))
			for lines := bufio.NewScanner(log); lines.Scan(); {
				t.Log(lines.Text())
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	dialer, err := tcp.NewDialer(tcp.Config{Addr: netip.MustParseAddrPort(fmt.Sprintf("127.0.0.1:%d", 2049+minor))})
	if err != nil {
		t.Fatal(err)
	}
	log := testlog.New(t)
	caller := reconnect.New(dialer, reconnect.Config{Server: "ganesha", Timeo: time.Second, Log: log})
	defer caller.Close()
	// The file that is open, and its OPEN.
	var (
		file     nfsclient.Handle
		open     *wire.Open
		reclaims atomic.Int32
	)
	lone := make(chan struct{}, 100)
	cf := Config{Caller: &counting{caller, lone}, Minor: minor, Owner: fmt.Appendf(nil, "rdmafs session test %d", os.Getpid()), Verifier: nfsclient.Verifier{1, 2, 3},
		Host: "ganesha", Machine: &transport.AuthSys{Machine: "test"}, Log: log}
	cf.Recover = func(ctx context.Context, r *Recovery) error {
		c := &Call{Cache: true, Ops: []wire.Operation{&wire.PutFH{Handle: file},
			&wire.Open{Access: wire.ShareBoth | wire.WantNoDeleg, Owner: open.Owner, Claim: wire.ClaimPrevious, DelegType: wire.DelegNone}}}
		if err := r.Do(ctx, c); err != nil {
			return err
		}
		if c.Status != wire.OK {
			t.Errorf("reclaiming: %s", wire.StatusName(c.Status))
			return errors.New(wire.StatusName(c.Status))
		}
		reclaims.Add(1)
		open.Stateid = c.Ops[1].(*wire.Open).Stateid
		return nil
	}
	s, err := Open(ctx, cf)
	if err != nil {
		t.Fatal(err)
	}
	// do makes a call again while the server is in its grace period, or asks for time.
	do := func(c *Call) wire.Status {
		t.Helper()
		for {
			if err := s.Do(ctx, c); err != nil {
				t.Fatalf("%v", err)
			}
			if c.Status != wire.ErrGrace && c.Status != wire.ErrDelay {
				return c.Status
			}
			if err := nfsclient.Pause(ctx, 200*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
	}
	must := func(c *Call) {
		t.Helper()
		if st := do(c); st != wire.OK {
			t.Fatalf("operation %d of %d: %s", c.Done, len(c.Ops), wire.StatusName(st))
		}
	}
	getfh := &wire.GetFH{}
	must(&Call{Ops: []wire.Operation{&wire.PutRootFH{}, &wire.Lookup{Name: "export"}, getfh}})
	root := getfh.Handle
	open = &wire.Open{Access: wire.ShareBoth | wire.WantNoDeleg, Owner: wire.Owner{ClientID: s.ClientID(), Owner: "opener"}, Create: true, Mode: wire.Unchecked,
		Attrs: wire.Attrs{Mask: wire.BitmapOf(wire.AttrMode), Mode: 0o644}, Name: "file"}
	getfh = &wire.GetFH{}
	must(&Call{Cache: true, Ops: []wire.Operation{&wire.PutFH{Handle: root}, open, getfh}})
	file = getfh.Handle

	var lock sync.Mutex
	made, repeated, total := map[string]bool{}, 0, 0
	began := time.Now()
	mkdirs := func(name string, n int, each func()) {
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				name := fmt.Sprint(name, i)
				c := &Call{Cache: true, Ops: []wire.Operation{&wire.PutFH{Handle: root},
					&wire.Create{Type: nfsclient.Directory, Name: name, Attrs: wire.Attrs{Mask: wire.BitmapOf(wire.AttrMode), Mode: 0o755}}}}
				for {
					if err := s.Do(ctx, c); err != nil {
						t.Error(err)
						return
					}
					again := c.Repeated
					if c.Status == wire.ErrGrace || c.Status == wire.ErrDelay {
						if nfsclient.Pause(ctx, 100*time.Millisecond) != nil {
							return
						}
						continue
					}
					if c.Status != wire.OK && (c.Status != nfsclient.ErrExist || !again) {
						t.Errorf("%s: %s, repeated: %v", name, wire.StatusName(c.Status), again)
					}
					lock.Lock()
					made[name], total = true, total+1
					if again {
						repeated++
					}
					lock.Unlock()
					each()
					return
				}
			})
		}
		all.Wait()
	}
	mkdirs("calm", 100, func() {})
	t.Logf("100 compounds at once in %v; %+v", time.Since(began).Round(time.Millisecond), s.Info())
	before := s.Epoch()
	half, restarted := make(chan struct{}), make(chan struct{})
	var n atomic.Int32
	go func() {
		<-half
		g.kill()
		g.start()
		close(restarted)
	}()
	mkdirs("storm", 2000, func() {
		if n.Add(1) == 500 {
			close(half)
		}
	})
	<-restarted
	must(&Call{Ops: []wire.Operation{&wire.PutFH{Handle: root}}})
	if s.Epoch() != before+1 || reclaims.Load() != 1 {
		t.Errorf("epoch %d after %d, %d files reclaimed", s.Epoch(), before, reclaims.Load())
	}
	for name := range made {
		if _, err := os.Stat(filepath.Join(data, name)); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d compounds, %d of them repeated, the server killed once", total, repeated)

	// Two leases without a call: the session lives, and so does what was reclaimed.
	for len(lone) > 0 {
		<-lone
	}
	for range 3 {
		select {
		case <-lone:
		case <-ctx.Done():
			t.Fatal("the lease is not renewed")
		}
	}
	sessions := s.Info().Session
	must(&Call{Cache: true, Ops: []wire.Operation{&wire.PutFH{Handle: file}, &wire.Close{Stateid: open.Stateid}}})
	if s.Info().Session != sessions || s.Epoch() != before+1 {
		t.Error("the session was lost while it was idle")
	}
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}
