package knfsd

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/test/knfsd/guest/ctl"
	"github.com/rdmafs/rdmafs/test/netns"
)

// stopGrace is what a guest gets to power off before it is killed.
const stopGrace = time.Minute

// Guest is a running guest. Its methods may be called at once, except that
// the server is started and stopped by one caller at a time.
type Guest struct {
	cfg     Config
	dir     string // temporary folder
	share   string
	addrs   map[Service]netip.AddrPort
	image   image
	ns      *netns.NS // nil without a tap
	tap     *os.File  // nil without one
	machine *machine
	control *controller
	boots   int // how many it took, see trip

	stopping sync.Once
	stopErr  error
}

// Start boots a guest and returns when all that c asks for is served. The
// first call on a machine builds the image, see Build. The caller owes a Stop.
func Start(ctx context.Context, c Config) (*Guest, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := Available(c); err != nil {
		return nil, err
	}
	img, err := build(ctx)
	if err != nil {
		return nil, err
	}
	for boots := 1; ; boots++ {
		g := &Guest{cfg: c, image: img, addrs: make(map[Service]netip.AddrPort), boots: boots}
		err := g.boot(ctx)
		if err == nil {
			err = g.configure(ctx, format)
		}
		if err == nil && !c.NoServer {
			err = g.StartServer(ctx)
		}
		if err == nil {
			return g, nil
		}
		console, again := g.Console(), g.tripped(err)
		if left := g.release(true); !again || left != nil || boots == maxBoots {
			return nil, errors.Join(err, fmt.Errorf("knfsd: console:\n%s", console), left)
		}
	}
}

// trip is what the guest's kernel says when the emulator runs an instruction
// that another processor of it is just patching. It was seen once in some
// hundred boots, before there was anything to test, so that Start boots again.
const (
	trip     = "Oops: int3"
	maxBoots = 3
)

// tripped reports whether err, of a boot, is the emulator's.
func (g *Guest) tripped(err error) bool {
	return errors.Is(err, ErrGone) && strings.Contains(g.Console(), trip)
}

// What configure does with a disk before it is mounted.
const (
	format = "ext4"
	keep   = "kept"
)

// configure sets up network, devices and the export inside the booted guest.
func (g *Guest) configure(ctx context.Context, disk string) error {
	select {
	case <-g.control.ready:
	case <-g.machine.done:
		return fmt.Errorf("%w: qemu: %v", ErrGone, g.machine.err)
	case <-ctx.Done():
		return fmt.Errorf("knfsd: waiting for the guest to boot: %w", ctx.Err())
	}
	steps := []string{fmt.Sprintf("net %v/24 %v %d", g.GuestAddr(), g.HostAddr(), g.cfg.MTU)}
	if g.cfg.has(SIW) {
		variant := "stock"
		if g.cfg.RepairedSIW {
			variant = "repaired"
		}
		steps = append(steps, "rdma_device "+variant)
	}
	if g.cfg.has(RXE) {
		steps = append(steps, "rdma_device rxe")
	}
	steps = append(steps, "base")
	if !g.cfg.NoServer {
		// An option's value has no business with the shell.
		export := "exported " + quote(g.cfg.ExportOptions)
		if g.cfg.DiskMiB > 0 {
			export += " " + disk + " /dev/vda"
		} else {
			export += fmt.Sprintf(" tmpfs %dm", g.cfg.TmpfsMiB)
		}
		steps = append(steps, export)
	}
	for _, s := range steps {
		if err := g.verb(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// verb runs one of the guest script's verbs.
func (g *Guest) verb(ctx context.Context, v string) error {
	_, err := g.Check(ctx, "guest "+v)
	return err
}

// Addr is where the host reaches the service: for a Tap network only from
// inside its namespace, see InNetNS. It is the zero AddrPort when the service
// is not there: RXE over Slirp, a device that Config leaves out.
func (g *Guest) Addr(s Service) netip.AddrPort { return g.addrs[s] }

// GuestAddr is the guest's own address, HostAddr the host's as the guest
// sees it. With Slirp neither is of use outside the guest.
func (g *Guest) GuestAddr() netip.Addr {
	if g.ns == nil {
		return slirpGuest
	}
	return GuestAddr
}

// HostAddr: see GuestAddr.
func (g *Guest) HostAddr() netip.Addr {
	if g.ns == nil {
		return slirpHost
	}
	return HostAddr
}

// Share is the host's name of the guest's /share.
func (g *Guest) Share() string { return g.share }

// NetNS is a path of the Tap network's namespace for nsenter --net=, valid
// until Stop; empty with Slirp.
func (g *Guest) NetNS() string {
	if g.ns == nil {
		return ""
	}
	return g.ns.Path()
}

// InNetNS calls f on a thread inside the Tap network's namespace; with Slirp
// it just calls it. Sockets that f itself opens and processes that it starts
// belong to the namespace for good; goroutines that it starts do not.
func (g *Guest) InNetNS(f func() error) error {
	if g.ns == nil {
		return f()
	}
	return g.ns.Do(f)
}

// Run executes a shell command as the guest's root and returns what it wrote
// to standard output and error together, and its exit code, 128 and more for a
// signal. Commands may run side by side. The error is not nil only if the
// command could not be run or did not end before ctx; then it is killed.
// Processes that a command leaves behind should have their output redirected.
func (g *Guest) Run(ctx context.Context, command string) (output string, code int, err error) {
	return g.control.run(ctx, command)
}

// Check is Run for a command that is to succeed: a code other than zero is an
// *ExitError.
func (g *Guest) Check(ctx context.Context, command string) (output string, err error) {
	output, code, err := g.Run(ctx, command)
	if err == nil && code != 0 {
		err = &ExitError{Command: command, Code: code, Output: output}
	}
	return output, err
}

// StartServer starts the NFS server's threads and listeners, without a grace period.
func (g *Guest) StartServer(ctx context.Context) error {
	if err := g.StartServerInGrace(ctx); err != nil {
		return err
	}
	return g.EndGrace(ctx)
}

// StartServerInGrace is StartServer with a grace period for locks, which lasts until
// EndGrace, or four minutes.
func (g *Guest) StartServerInGrace(ctx context.Context) error {
	return g.verb(ctx, fmt.Sprintf("serve %d", g.cfg.Threads))
}

// EndGrace ends the grace period after StartServerInGrace.
func (g *Guest) EndGrace(ctx context.Context) error { return g.verb(ctx, "end_grace") }

// StopServer ends the NFS server's threads, all its connections and all
// version 4 state. MOUNT and rpcbind go on, and so do the exported data.
func (g *Guest) StopServer(ctx context.Context) error { return g.verb(ctx, "unserve") }

// RestartServer is StopServer and StartServer: clients lose their connections
// and find the same file handles and data under a new write verifier.
func (g *Guest) RestartServer(ctx context.Context) error {
	if err := g.StopServer(ctx); err != nil {
		return err
	}
	return g.StartServer(ctx)
}

// Kerberos has the server take calls of RPCSEC_GSS by the keys of a keytab. conf is the
// realm's krb5.conf. ExportOptions must have sec= with krb5 and the like. The realm's
// principals alice, bob and tester are users 1001, 1002 and 1000 of the guest.
func (g *Guest) Kerberos(ctx context.Context, conf, keytab string) error {
	const dir = "kerberos"
	if err := os.MkdirAll(filepath.Join(g.share, dir), 0o700); err != nil {
		return err
	}
	for from, to := range map[string]string{conf: "krb5.conf", keytab: "krb5.keytab"} {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(g.share, dir, to), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return g.verb(ctx, "kerberos /share/"+dir)
}

// SetInlineThreshold sets the largest message that the server takes and sends
// without a chunk on RDMA connections made from now on. The kernel takes
// 4096, its default, to 65536.
func (g *Guest) SetInlineThreshold(ctx context.Context, bytes int) error {
	return g.verb(ctx, fmt.Sprintf("inline %d", bytes))
}

// SetClientInlineThreshold is the same of the guest's NFS client, for mounts
// made from now on. The kernel takes 1024 to 65536; its default is 4096.
func (g *Guest) SetClientInlineThreshold(ctx context.Context, bytes int) error {
	return g.verb(ctx, fmt.Sprintf("client_inline %d", bytes))
}

// consoleTail is how much of each log Console returns.
const consoleTail = 8 << 10

// Console is the end of the guest's kernel log, and what qemu said, for the
// report of a failure. After Stop it is empty.
func (g *Guest) Console() string {
	var all string
	for _, name := range []string{"console", "qemu"} {
		b, err := os.ReadFile(filepath.Join(g.dir, name))
		if err == nil && len(b) > 0 {
			all += string(tail(b, consoleTail))
		}
	}
	return all
}

// PowerCut ends the guest as a power cut ends a machine: what its kernel had not
// yet written to the disk is lost. The host's end of the network stays. It
// needs Tap and DiskMiB, and no other method may be under way until PowerOn has
// returned.
func (g *Guest) PowerCut() error {
	if g.cfg.Network != Tap || g.cfg.DiskMiB == 0 {
		return errors.New("knfsd: a power cut needs a tap network and a disk")
	}
	g.machine.kill()
	return g.control.close()
}

// PowerOn boots the guest again after PowerCut, from the same disk. /export is
// mounted and announced; the server is the caller's to start.
func (g *Guest) PowerOn(ctx context.Context) error {
	for boots := 1; ; boots++ {
		err := g.powerOn(ctx)
		if err == nil {
			err = g.configure(ctx, keep)
		}
		if err == nil || boots == maxBoots || !g.tripped(err) {
			return err
		}
		if err := g.PowerCut(); err != nil {
			return err
		}
	}
}

// Gone is closed when the guest has ended, be it by Stop, by PowerCut or by itself.
func (g *Guest) Gone() <-chan struct{} { return g.machine.done }

// Stop powers the guest off, or kills it if it will not go, and removes its
// namespace and files. The error tells of a kill. Further calls return the
// same.
func (g *Guest) Stop() error {
	g.stopping.Do(func() { g.stopErr = g.release(false) })
	return g.stopErr
}

// release undoes what boot did, as far as it came.
func (g *Guest) release(kill bool) error {
	var errs []error
	if g.machine != nil {
		if !kill {
			errs = append(errs, g.powerOff())
		}
		g.machine.kill()
	}
	if g.control != nil {
		errs = append(errs, g.control.close())
	}
	if g.tap != nil {
		errs = append(errs, g.tap.Close())
	}
	if g.ns != nil {
		errs = append(errs, g.ns.Close())
	}
	if g.dir != "" {
		errs = append(errs, os.RemoveAll(g.dir))
	}
	return errors.Join(errs...)
}

func (g *Guest) powerOff() error {
	if g.machine.exited() {
		return fmt.Errorf("%w: it ended before it was stopped: qemu: %v", ErrGone, g.machine.err)
	}
	if err := g.control.send(ctl.Frame{Kind: ctl.PowerOff}); err != nil {
		return err
	}
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-g.machine.done:
		return nil
	case <-timer.C:
		return fmt.Errorf("knfsd: the guest did not power off and was killed; console:\n%s", g.Console())
	}
}
