//go:build knfsd

package knfsd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// limit bounds a test that hangs; no test depends on it otherwise.
func limit(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// check runs a command in the guest that is to succeed.
func check(t *testing.T, g *Guest, command string) string {
	t.Helper()
	out, err := g.Check(limit(t), command)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSlirp(t *testing.T) {
	g := StartTest(t, Config{})

	t.Run("services answer", func(t *testing.T) {
		for _, s := range []struct {
			service       Service
			program, vers uint32
		}{
			{TCP, 100003, 3},
			{TCP, 100003, 4},
			{Mountd, 100005, 3},
			{Rpcbind, 100000, 2},
			{NLM, 100021, 4},
		} {
			if err := nullCall(g, s.service, s.program, s.vers); err != nil {
				t.Errorf("%v: %v", s.service, err)
			}
		}
		if err := mpaConnect(g); err != nil {
			t.Errorf("siw: %v", err)
		}
		if a := g.Addr(RXE); a.IsValid() {
			t.Errorf("RoCE does not cross the user network, yet has address %v", a)
		}
	})
	t.Run("commands", func(t *testing.T) { testCommands(t, g) })
	t.Run("share", func(t *testing.T) { testShare(t, g) })
	t.Run("programs", func(t *testing.T) { testPrograms(t, g) })
	t.Run("inline thresholds", func(t *testing.T) { testInline(t, g) })
	t.Run("restart", func(t *testing.T) { testRestart(t, g) })
	t.Run("stop", func(t *testing.T) { testStop(t, g) })
}

func testCommands(t *testing.T, g *Guest) {
	ctx := limit(t)
	out, code, err := g.Run(ctx, "echo out; echo err >&2; exit 3")
	if err != nil || code != 3 || out != "out\nerr\n" {
		t.Errorf("output %q, code %d, error %v", out, code, err)
	}
	if out, code, err := g.Run(ctx, "kill -9 $$"); err != nil || code != 137 {
		t.Errorf("killed command: output %q, code %d, error %v", out, code, err)
	}
	var exit *ExitError
	if _, err := g.Check(ctx, "false"); !errors.As(err, &exit) || exit.Code != 1 {
		t.Errorf("failed check: %v", err)
	}
	// More than one frame, and more than the pipes hold.
	if out, err := g.Check(ctx, "head -c 1000000 /dev/zero | tr '\\0' x"); err != nil || out != strings.Repeat("x", 1000000) {
		t.Errorf("long output: %d bytes, %v", len(out), err)
	}

	// Each waits for the other: they end only if they run at the same time.
	check(t, g, "mkfifo /tmp/there /tmp/back")
	var wg sync.WaitGroup
	for _, c := range []string{"echo ping >/tmp/there; cat /tmp/back", "cat /tmp/there; echo pong >/tmp/back"} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if _, err := g.Check(ctx, c); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()

	// A cancelled command is killed: whoever reads what it holds open sees
	// the end.
	check(t, g, "mkfifo /tmp/held /tmp/started")
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	held := make(chan error, 1)
	go func() {
		_, _, err := g.Run(short, "exec 3>/tmp/held; echo >/tmp/started; exec sleep infinity")
		held <- err
	}()
	reader := make(chan error, 1)
	go func() {
		_, err := g.Check(ctx, "cat /tmp/held")
		reader <- err
	}()
	check(t, g, "cat /tmp/started")
	cancel()
	if err := <-held; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled command: %v", err)
	}
	if err := <-reader; err != nil {
		t.Error(err)
	}
}

func testShare(t *testing.T, g *Guest) {
	name := g.Share() + "/from-host"
	if err := os.WriteFile(name, []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := check(t, g, "cat /share/from-host; rm /share/from-host; echo back >/share/from-guest"); out != "hello" {
		t.Errorf("the guest read %q", out)
	}
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("removed in the guest, yet: %v", err)
	}
	if b, err := os.ReadFile(g.Share() + "/from-guest"); err != nil || string(b) != "back\n" {
		t.Errorf("the host read %q, %v", b, err)
	}
}

// testPrograms runs programs in the guest, and looks at what they find there.
func testPrograms(t *testing.T, g *Guest) {
	g.GoTest(t, Program{Package: "github.com/rdmafs/rdmafs/test/knfsd/guest/ctl"}, time.Minute)
	out, code, err := g.RunProgram(limit(t), Program{
		Package: "github.com/rdmafs/rdmafs/test/knfsd/guest/ctl", Test: true,
		Args: []string{"-test.run=^None$"}, Wrapper: AsTester,
	})
	if err != nil || code != 0 || !strings.HasPrefix(out, "testing: warning: no tests to run") {
		t.Errorf("as tester: output %q, code %d, %v", out, code, err)
	}
	for command, want := range map[string]string{
		"cd /dev && stat -c '%a %n' fuse infiniband/uverbs[01] infiniband/rdma_cm": "666 fuse\n666 infiniband/uverbs0\n666 infiniband/uverbs1\n666 infiniband/rdma_cm\n",
		strings.Join(AsTester, " ") + " bash -c 'id -u; ulimit -l'":                "1000\n8192\n",
		"stat -c %A $(command -v fusermount3)":                                     "-rwsr-xr-x\n",
		"ibv_devices | awk '{ print $1 }' | sort":                                  "------\ndevice\nrxe0\nsiw0\n",
	} {
		if out := check(t, g, command); out != want {
			t.Errorf("%s: %q, want %q", command, out, want)
		}
	}
}

func testInline(t *testing.T, g *Guest) {
	ctx := limit(t)
	for _, n := range []int{65536, 8192, 4096} {
		if err := g.SetInlineThreshold(ctx, n); err != nil {
			t.Error(err)
		}
	}
	// The documented limits, checked so that a change of kernel is noticed.
	for _, n := range []int{1024, 4095, 65537} {
		if err := g.SetInlineThreshold(ctx, n); err == nil {
			t.Errorf("the server took a threshold of %d", n)
		}
	}
	for _, n := range []int{1024, 65536, 4096} {
		if err := g.SetClientInlineThreshold(ctx, n); err != nil {
			t.Error(err)
		}
	}
	if err := g.SetClientInlineThreshold(ctx, 1023); err == nil {
		t.Error("the client took a threshold of 1023")
	}
}

func testRestart(t *testing.T, g *Guest) {
	ctx := limit(t)
	check(t, g, "echo kept >/export/kept")
	idle, err := dial(g, TCP)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	if err := callNull(idle, 100003, 3); err != nil {
		t.Fatal(err)
	}
	before, err := writeVerifier(g)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := writeVerifier(g); err != nil || again != before {
		t.Fatalf("verifier %x, then %x without a restart (%v)", before, again, err)
	}

	if err := g.StopServer(ctx); err != nil {
		t.Fatal(err)
	}
	if err := callNull(idle, 100003, 3); err == nil {
		t.Error("the connection outlived the server")
	}
	if err := nullCall(g, TCP, 100003, 3); err == nil {
		t.Error("a stopped server answers")
	}
	if err := g.StartServer(ctx); err != nil {
		t.Fatal(err)
	}
	if err := g.RestartServer(ctx); err != nil {
		t.Fatal(err)
	}
	after, err := writeVerifier(g)
	if err != nil {
		t.Fatal(err)
	}
	if after == before {
		t.Errorf("the write verifier is %x before and after a restart", after)
	}
	if err := mpaConnect(g); err != nil {
		t.Errorf("siw after restart: %v", err)
	}
	if err := nullCall(g, NLM, 100021, 4); err != nil {
		t.Errorf("lock manager after restart: %v", err)
	}
	if out := check(t, g, "cat /export/kept"); out != "kept\n" {
		t.Errorf("exported data after restart: %q", out)
	}
}

// testStop is the last test of a guest.
func testStop(t *testing.T, g *Guest) {
	pid, dir, ns := g.machine.cmd.Process.Pid, g.dir, g.NetNS()
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("qemu after Stop: %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("temporary folder after Stop: %v", err)
	}
	if ns != "" {
		if to, err := os.Readlink(ns); err == nil && strings.HasPrefix(to, "net:") {
			t.Errorf("namespace %s is still open after Stop", to)
		}
	}
	if _, _, err := g.Run(limit(t), "true"); !errors.Is(err, ErrGone) {
		t.Errorf("command after Stop: %v", err)
	}
}

// kernelMount mounts the guest's own server with the guest's own client and
// carries a file both ways and locks it: the server is past its grace periods.
func kernelMount(t *testing.T, g *Guest, options string) {
	t.Helper()
	mount := "mount -t nfs -o " + options + " " + g.GuestAddr().String() + ":/export /mnt/own"
	out := check(t, g, `set -e
mkdir -p /mnt/own
`+mount+`
trap 'umount /mnt/own' EXIT
grep ' /mnt/own ' /proc/mounts
head -c 3000000 /dev/urandom >/tmp/data
cp /tmp/data /mnt/own/data
cmp /tmp/data /export/data
umount /mnt/own
`+mount+`
cmp /tmp/data /mnt/own/data
flock -x /mnt/own/data cat /proc/locks
rm /mnt/own/data`)
	for o := range strings.SplitSeq(options, ",") {
		if !strings.Contains(out, o) {
			t.Errorf("mounted without %s: %s", o, out)
		}
	}
}

func TestTapBothDevicesAndDisk(t *testing.T) {
	g := StartTest(t, Config{Network: Tap, MTU: 4200, DiskMiB: 64, RepairedSIW: true})
	if out := check(t, g, "stat -f -c %T /export; cat /sys/class/net/eth0/mtu"); out != "ext2/ext3\n4200\n" {
		t.Errorf("exported file system and MTU: %q", out)
	}
	for _, s := range []Service{TCP, Mountd, Rpcbind} {
		program := map[Service]uint32{TCP: 100003, Mountd: 100005, Rpcbind: 100000}[s]
		if err := nullCall(g, s, program, map[Service]uint32{TCP: 3, Mountd: 3, Rpcbind: 2}[s]); err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
	if err := mpaConnect(g); err != nil {
		t.Errorf("siw: %v", err)
	}
	if !g.Addr(RXE).IsValid() {
		t.Error("RXE has no address")
	}
	testHostService(t, g)
	kernelMount(t, g, "vers=3,proto=tcp")
	kernelMount(t, g, "vers=4.2,proto=tcp")
	testStop(t, g)
}

func TestTapKernelClientSIW(t *testing.T) {
	g := StartTest(t, Config{Network: Tap, RDMA: []Service{SIW}})
	kernelMount(t, g, "vers=3,proto=rdma,port=20049")
	kernelMount(t, g, "vers=4.2,proto=rdma,port=20049")
	if err := g.SetClientInlineThreshold(limit(t), 1024); err != nil {
		t.Fatal(err)
	}
	kernelMount(t, g, "vers=3,proto=rdma,port=20049")
}

func TestTapKernelClientRXE(t *testing.T) {
	g := StartTest(t, Config{Network: Tap, RDMA: []Service{RXE}})
	if g.Addr(SIW).IsValid() {
		t.Error("SIW has an address without a device")
	}
	kernelMount(t, g, "vers=3,proto=rdma,port=20049")
}

// TestTapClientOnly also has two guests at once, on networks with the same
// addresses.
func TestTapClientOnly(t *testing.T) {
	g := StartTest(t, Config{Network: Tap, NoServer: true, RDMA: []Service{}})
	other := StartTest(t, Config{Network: Tap, NoServer: true, RDMA: []Service{}})
	testHostService(t, g)
	testHostService(t, other)
	show := func() error { return exec.Command("ip", "link", "show", tapName).Run() }
	if err := g.InNetNS(show); err != nil {
		t.Errorf("a process started in the namespace does not see the tap: %v", err)
	}
	if err := show(); err == nil {
		t.Error("the tap is visible outside of the namespace")
	}
	if out, err := exec.Command("nsenter", "--net="+g.NetNS(), "ip", "link", "show", tapName).CombinedOutput(); err != nil {
		t.Errorf("nsenter: %v: %s", err, out)
	}
	if g.Addr(TCP).IsValid() {
		t.Error("a guest without server has an address of one")
	}
}
