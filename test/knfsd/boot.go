package knfsd

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/netns"
)

// kernelArguments keep an emulated processor from work that no test needs.
const kernelArguments = "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr " +
	"init_on_alloc=0 cryptomgr.notests no_timer_check tsc=reliable apparmor=0 audit=0"

// guestMAC is the same in every guest: each is alone on its network.
const guestMAC = "52:54:00:99:00:02"

// boot makes the guest's surroundings and starts qemu. What it made stands in
// g even when it fails.
func (g *Guest) boot(ctx context.Context) (err error) {
	if g.dir, err = os.MkdirTemp("", "rdmafs-knfsd-"); err != nil {
		return err
	}
	if g.share = g.cfg.Share; g.share == "" {
		g.share = filepath.Join(g.dir, "share")
		if err := os.Mkdir(g.share, 0o700); err != nil {
			return err
		}
	}
	if g.cfg.DiskMiB > 0 {
		disk, err := os.Create(g.disk())
		if err != nil {
			return err
		}
		if err := errors.Join(disk.Truncate(int64(g.cfg.DiskMiB)<<20), disk.Close()); err != nil {
			return err
		}
	}
	if g.cfg.Network == Tap {
		if g.ns, err = netns.New(); err != nil {
			return err
		}
		if g.tap, err = openTap(g.ns, g.cfg.MTU); err != nil {
			return err
		}
	}
	return g.powerOn(ctx)
}

// disk is the image of the exported disk.
func (g *Guest) disk() string { return filepath.Join(g.dir, "disk") }

// powerOn starts qemu in the surroundings that boot has made.
func (g *Guest) powerOn(ctx context.Context) (err error) {
	p := newPlan(g.cfg, g.image, filepath.Join(g.dir, "console"), g.share)
	defer func() { err = errors.Join(err, p.close()) }()
	controlFile, err := p.stream("control")
	if err != nil {
		return err
	}
	g.control = newController(controlFile)
	p.add("-device", "virtio-serial-pci", "-chardev", "socket,id=control,fd="+p.fd(), "-device", "virtserialport,chardev=control")
	if g.cfg.DiskMiB > 0 {
		// Whatever the guest has written is in the file, also when qemu is killed.
		p.add("-drive", "if=virtio,format=raw,cache=unsafe,file="+escape(g.disk()))
	}
	var monitor *os.File
	if g.cfg.Network == Tap {
		fd, err := unix.FcntlInt(g.tap.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return os.NewSyscallError("fcntl", err)
		}
		p.inherit(os.NewFile(uintptr(fd), tunDevice))
		p.network("tap,fd=" + p.fd())
	} else {
		if monitor, err = p.stream("monitor"); err != nil {
			return err
		}
		defer monitor.Close()
		p.add("-chardev", "socket,id=monitor,fd="+p.fd(), "-mon", "chardev=monitor,mode=control")
		p.network(slirpOptions())
	}

	log, err := os.Create(filepath.Join(g.dir, "qemu"))
	if err != nil {
		return err
	}
	defer log.Close()
	if g.machine, err = startMachine(p.args, log, p.files); err != nil {
		return err
	}
	if g.cfg.Network == Tap {
		g.tapAddrs()
		return nil
	}
	// Our copies of qemu's ends must go first: only then does a qemu that
	// dies end the conversation.
	if err := p.close(); err != nil {
		return err
	}
	return g.slirpAddrs(ctx, newQMP(monitor))
}

// there reports whether the guest as configured has the service.
func (g *Guest) there(s Service) bool {
	switch s {
	case SIW, RXE:
		return g.cfg.has(s) && !g.cfg.NoServer
	case TCP, Mountd:
		return !g.cfg.NoServer
	default:
		return true
	}
}

func (g *Guest) tapAddrs() {
	for s := range services {
		if g.there(s) {
			g.addrs[s] = netip.AddrPortFrom(GuestAddr, s.guestPort())
		}
	}
}

func (g *Guest) slirpAddrs(ctx context.Context, q *qmp) error {
	if err := q.greet(ctx); err != nil {
		return err
	}
	ports, err := q.forwards(ctx)
	if err != nil {
		return err
	}
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	for _, s := range forwarded {
		host := ports[s.guestPort()]
		if host == 0 {
			return fmt.Errorf("knfsd: qemu does not forward a port to %v", s)
		}
		if g.there(s) {
			g.addrs[s] = netip.AddrPortFrom(loopback, host)
		}
	}
	return nil
}

// slirpOptions ask for the user network, with host ports chosen by the system.
func slirpOptions() string {
	var b strings.Builder
	b.WriteString("user,restrict=on")
	for _, s := range forwarded {
		fmt.Fprintf(&b, ",hostfwd=tcp:127.0.0.1:0-:%d", s.guestPort())
	}
	return b.String()
}

// plan collects qemu's arguments and the files that it inherits.
type plan struct {
	args  []string
	files []*os.File
}

func newPlan(c Config, img image, console, share string) *plan {
	return &plan{args: []string{
		"-name", "rdmafs-knfsd",
		"-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max",
		"-smp", fmt.Sprint(c.CPUs), "-m", fmt.Sprint(c.MemoryMiB),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", img.kernel, "-initrd", img.initrd, "-append", kernelArguments,
		"-chardev", "file,id=console,path=" + escape(console), "-serial", "chardev:console",
		"-virtfs", "local,path=" + escape(share) + ",mount_tag=share,security_model=none,multidevs=remap",
		"-device", "virtio-rng-pci",
	}}
}

func (p *plan) add(args ...string) { p.args = append(p.args, args...) }

// inherit takes f: qemu gets it, and close closes our copy.
func (p *plan) inherit(f *os.File) { p.files = append(p.files, f) }

// fd is the number under which qemu finds the last inherited file.
func (p *plan) fd() string { return fmt.Sprint(2 + len(p.files)) }

// stream makes a socket pair; qemu inherits the other end.
func (p *plan) stream(name string) (*os.File, error) {
	ours, theirs, err := stream(name)
	if err != nil {
		return nil, err
	}
	p.inherit(theirs)
	return ours, nil
}

func (p *plan) network(backend string) {
	p.add("-netdev", backend+",id=net", "-device", "virtio-net-pci,netdev=net,romfile=,mac="+guestMAC)
}

func (p *plan) close() error {
	var errs []error
	for _, f := range p.files {
		errs = append(errs, f.Close())
	}
	p.files = nil
	return errors.Join(errs...)
}

// escape protects a path in a comma-separated list of qemu options.
func escape(path string) string { return strings.ReplaceAll(path, ",", ",,") }

// quote makes one shell word of s.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
