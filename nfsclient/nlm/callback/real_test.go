package callback

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	rpcbindwire "github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/nfsclient/rpcbind"
)

// apartEnv marks the process that runs with a network and a /run of its own.
const apartEnv = "RDMAFS_CALLBACK_APART"

// guard is for what must not hang.
const guard = 2 * time.Minute

// apart runs the test once more where rpcbind disturbs nobody, and reports whether this
// is that.
func apart(t *testing.T, programs ...string) bool {
	t.Helper()
	if os.Getenv(apartEnv) != "" {
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can run rpcbind in a network of its own")
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	for _, p := range append(programs, "unshare", "ip", "mount") {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed (Debian: rpcbind, nfs-common, util-linux, iproute2)", p)
		}
	}
	script := `ip link set lo up && mount -t tmpfs tmpfs /run && exec "$@"`
	cmd := exec.Command("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--propagation", "private",
		"sh", "-c", script, "sh", os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), apartEnv+"=1")
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "unshare: ") {
		t.Skipf("this machine does not let us have a network of our own: %s", out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	return false
}

// start runs a program until the test ends.
func start(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // by the signal
	})
	return cmd
}

func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(guard); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not so after %v", what, guard)
		}
	}
}

// list is what the real rpcbind has of a program, nil if it does not answer.
func list(prog uint32) (found []rpcbindwire.Rpcb) {
	ctx, cancel := context.WithTimeout(context.Background(), guard)
	defer cancel()
	_ = rpcbind.Do(ctx, rpcbind.Socket, func(c *rpcbind.Conn) error {
		all, err := c.List()
		for _, e := range all {
			if e.Program == prog {
				found = append(found, e)
			}
		}
		return err
	})
	return found
}

// TestRealPrograms: the real rpcbind takes and drops the registrations, the real
// sm-notify finds them and is heard, and the real rpc.statd gets its program once
// somebody looks for it, as mount.nfs does before it starts it.
func TestRealPrograms(t *testing.T) {
	if !apart(t, "rpcbind", "sm-notify", "rpc.statd", "rpcinfo") {
		return
	}
	start(t, "rpcbind", "-f", "-w")
	await(t, "rpcbind", func() bool { return len(list(rpcbindwire.RpcbindProgram)) > 0 })
	h := &handler{}
	l, err := Listen(t.Context(), Config{Server: netip.MustParseAddr("127.0.0.1"), Rpcbind: rpcbind.Socket, Handler: h})
	if err != nil {
		t.Fatal(err)
	}
	if n, m := len(list(wire.Program)), len(list(wire.NSMProgram)); n != 2 || m != 2 || !l.Monitors() {
		t.Fatalf("%d registrations of NLM, %d of NSM", n, m)
	}
	if yes, err := l.Registered(t.Context()); !yes || err != nil {
		t.Errorf("%v, %v", yes, err)
	}
	// The list of hosts that a server's rpc.statd keeps has the client's address.
	dir := t.TempDir()
	for _, sub := range []string{"sm", "sm.bak"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	entry := "0100007f 000186b5 00000004 00000010 00000000000000000000000000000000 127.0.0.1 server\n"
	if err := os.WriteFile(filepath.Join(dir, "sm", "127.0.0.1"), []byte(entry), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, "sm-notify", "-d", "-f", "-m", "1", "-P", dir, "-v", "127.0.0.1")
	await(t, "SM_NOTIFY", func() bool {
		_, _, notices := h.told()
		return len(notices) > 0
	})
	_, _, notices := h.told()
	t.Logf("sm-notify said %q", notices)

	// rpcinfo's NULL is mount.nfs's question whether rpc.statd runs.
	if out, err := exec.Command("rpcinfo", "-T", "udp", "127.0.0.1", "100024", "1").CombinedOutput(); err == nil {
		t.Errorf("rpcinfo takes us for rpc.statd: %s", out)
	}
	if got := list(wire.NSMProgram); len(got) != 0 || l.Monitors() {
		t.Errorf("NSM is not given up: %+v", got)
	}
	start(t, "rpc.statd", "-F", "-d", "-P", dir)
	await(t, "rpc.statd", func() bool { return len(list(wire.NSMProgram)) > 0 })
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := list(wire.Program); len(got) != 0 {
		t.Errorf("left registered: %+v", got)
	}
	if got := list(wire.NSMProgram); len(got) == 0 {
		t.Error("rpc.statd's registration is gone")
	}
	again, err := Listen(t.Context(), Config{Server: netip.MustParseAddr("127.0.0.1"), Rpcbind: rpcbind.Socket, Handler: h})
	if err != nil {
		t.Fatal(err)
	}
	if again.Monitors() {
		t.Error("has what is rpc.statd's")
	}
	if err := again.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
