package torture

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/netns"
)

// Cell is a fault crossed with a transport and a kind of use.
type Cell struct {
	Fault, Transport, Kind string
	Seed                   uint64
	// Binary is the rdmafs command.
	Binary string
	// Long makes faults last as long as they do in a long run.
	Long bool
	// Vers is the version of NFS, as vers= has it.
	Vers string
	// Race: the daemon is built with the race detector.
	Race bool
}

func (c Cell) String() string { return c.Fault + "/" + c.Transport + "/" + c.Kind }

// Result is the result of a cell.
type Result struct {
	Cell
	// Ops are calls that succeeded, Injected what the fault did, Reports the
	// errors that callers were told, Lost acknowledged bytes or names.
	Ops, Injected, Reports, Lost int
	HighWater                    int // KiB
	Failures                     []string
	// Log has the observations and the output of daemons and server, if something
	// failed.
	Log     string
	Errors  map[string]int
	Seconds float64
}

// memory is the bound in KiB for a daemon.
const memory = 256 << 10

// run is a running cell.
type run struct {
	Cell
	fault  *fault
	r      *rand.Rand
	net    *netns.Net
	base   string
	server *server
	mounts []*daemon
	// gone are daemons that a fault has ended.
	gone     []*daemon
	hands    []*workerProc
	numbers  int
	injected int
	failures []string
	high     int
	lost     int
	// dumped: the daemons were made to print their goroutines, which ended them.
	dumped bool
	// seen has the observations of a cell that failed.
	seen strings.Builder
}

func (c *run) failf(format string, args ...any) {
	if len(c.failures) < 20 {
		c.failures = append(c.failures, fmt.Sprintf(format, args...))
	}
}

// RunCell runs a cell in this process, which has namespaces of its own.
func RunCell(cell Cell) (res Result) {
	began := time.Now()
	res.Cell = cell
	c := &run{Cell: cell, fault: faults[cell.Fault], r: random(cell.Seed, cell.String())}
	if c.fault == nil {
		res.Failures = []string{"no such fault"}
		return res
	}
	err := c.all()
	if err != nil {
		c.failf("%v", err)
		c.look()
		if errors.Is(err, errHangs) {
			c.dump()
		}
	}
	c.cleanUp()
	res.Errors = map[string]int{}
	for _, h := range c.hands {
		h.mu.Lock()
		res.Ops += h.ops
		for what, n := range h.errors {
			res.Errors[what] += n
			res.Reports += n
		}
		for no, first := range h.first {
			if !slices.Contains(c.allowed(), no) && !c.dumped {
				c.failf("worker %d was told: %s", h.Number, first)
			}
		}
		for _, bad := range h.bad[:min(3, len(h.bad))] {
			c.failf("worker %d saw: %s", h.Number, bad)
		}
		if s := h.said(); s != "" {
			c.failf("worker %d said: %s", h.Number, s[:min(len(s), 2000)])
		}
		h.mu.Unlock()
	}
	for _, d := range append(c.mounts, c.gone...) {
		said := d.said()
		for _, word := range []string{"panic:", "DATA RACE", "fatal error:"} {
			if strings.Contains(said, word) && !c.dumped && !(word == "fatal error:" && c.fault.mayDie) {
				c.failf("the daemon said %q", word)
			}
		}
	}
	if c.high > memory && !c.Race {
		c.failf("the daemon held %d MiB, more than %d", c.high>>10, memory>>10)
	}
	res.Injected, res.HighWater, res.Failures = c.injected, c.high, c.failures
	res.Lost = c.lost
	if len(res.Failures) > 0 {
		res.Log = c.seen.String()
		for _, d := range append(c.gone, c.mounts...) {
			res.Log += d.name + ":\n" + d.said()
		}
		if c.server != nil && c.server.process != nil {
			res.Log += "server:\n" + c.server.said()
		}
	}
	res.Seconds = time.Since(began).Seconds()
	return res
}

// allowed are the errors that callers may get.
func (c *run) allowed() []syscall.Errno { return c.fault.allowed(c) }

func (c *run) all() error {
	if err := c.setUp(); err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	if err := c.work(); err != nil {
		return err
	}
	if err := c.progress(5, 1); err != nil {
		return fmt.Errorf("before the fault: %w", err)
	}
	if err := c.fault.run(c); err != nil {
		return fmt.Errorf("with the fault: %w", err)
	}
	if !c.fault.ends {
		if err := c.progress(5, 1); err != nil {
			return fmt.Errorf("after the fault: %w", err)
		}
	}
	if err := c.stop(); err != nil {
		return fmt.Errorf("ending the workers: %w", err)
	}
	if err := c.unmount(); err != nil {
		return fmt.Errorf("unmounting: %w", err)
	}
	return c.verify()
}

func (c *run) setUp() (err error) {
	if c.base, err = os.MkdirTemp("/run", "cell."); err != nil {
		return err
	}
	var weather *netns.Weather
	if c.fault.net {
		weather = &netns.Weather{All: true, Seed: c.Seed}
	}
	if c.net, err = netns.NewNet(1500, weather); err != nil {
		return err
	}
	export := filepath.Join(c.base, "export")
	if err := os.Mkdir(export, 0o755); err != nil {
		return err
	}
	// Its own file system: it can be full.
	if err := unix.Mount("export", export, "tmpfs", 0, "size=256m,mode=755"); err != nil {
		return err
	}
	c.server = &server{at: c.net.B, place: place{Dir: export, ID: 7, Lossy: c.r.IntN(2) == 0, Transport: c.Transport,
		Addr: c.net.B.IPv4.String(), Seed: c.Seed, Vers: c.Vers, Proxy: c.fault.proxy && c.Transport == "tcp"}}
	if c.fault.lossy {
		c.server.Lossy = true
	}
	if err := c.server.boot(); err != nil {
		return err
	}
	mounts := max(1, c.fault.mounts)
	for range mounts {
		if err := c.mount(); err != nil {
			return err
		}
	}
	return nil
}

func (c *run) source() string { return c.net.B.IPv4.String() + ":/export" }

func (c *run) options() string { return c.optionsOf(c.Vers) }

// optionsOf is the options for a server of that version of NFS.
func (c *run) optionsOf(vers string) string {
	words := fmt.Sprintf("timeo=%d", max(c.fault.timeo, 20))
	if vers == "3" {
		words += fmt.Sprintf(",mountport=%d,nlmport=%d", tcpPort, tcpPort)
	}
	switch c.Transport {
	case "tcp":
		words += fmt.Sprintf(",proto=tcp,port=%d", tcpPort)
	default:
		words += fmt.Sprintf(",proto=rdma,rdma=%s,port=%d", c.Transport, rdmaPort)
	}
	if c.Transport == "roce" && len(c.mounts) > 0 {
		// A second device needs an address of its own.
		words += ",srcaddr=" + secondAddr
	}
	words += ",vers=" + vers
	if w := os.Getenv(wordsEnv); w != "" {
		words += "," + w
	}
	return words
}

// wordsEnv has further mount options for every mount.
const wordsEnv = "TORTURE_WORDS"

const secondAddr = "10.77.0.3"

func (c *run) mount() error {
	if c.Transport == "roce" && len(c.mounts) > 0 {
		if err := c.net.A.Do(func() error { return netns.IP("addr add " + secondAddr + "/24 dev " + netns.Link) }); err != nil {
			return err
		}
	}
	d, err := mountSoon(c.net.A, c.Binary, c.source(), filepath.Join(c.base, fmt.Sprint("mnt", len(c.mounts)+len(c.gone))), c.options())
	if err == nil {
		c.mounts = append(c.mounts, d)
	}
	return err
}

// work starts the workers.
func (c *run) work() error {
	for k := range c.mounts {
		for range 2 {
			if _, err := c.startWorker(c.mounts[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *run) startWorker(d *daemon) (*workerProc, error) {
	j := job{Kind: c.Kind, Dir: d.dir, Number: c.numbers, Seed: c.Seed, Files: 2, Fork: c.fault.fork}
	if c.fault.files > 0 {
		j.Files = c.fault.files
	}
	if c.fault.shared && c.Kind != "names" {
		j.Shared = "shared"
	}
	c.numbers++
	h, err := startWorker(c.net.A, j)
	if err == nil {
		c.hands = append(c.hands, h)
	}
	return h, err
}

// progress waits until each living worker has done that many more calls, and had
// that many acknowledged.
func (c *run) progress(ops, acks int) error { return c.progressOf(c.hands, ops, acks) }

func (c *run) progressOf(hands []*workerProc, ops, acks int) error {
	type mark struct{ ops, acks int }
	marks := map[*workerProc]mark{}
	for _, h := range hands {
		if h.alive() {
			o, a := h.done()
			marks[h] = mark{o + ops, a + acks}
		}
	}
	return poll("progress", func() (bool, error) {
		for h, m := range marks {
			o, a := h.done()
			if o >= m.ops && a >= m.acks {
				continue
			}
			if !h.alive() && c.fault.mayDie && !c.mounts[0].alive() {
				continue
			}
			if !h.alive() {
				return false, fmt.Errorf("%s ended: %s", h.name, h.said())
			}
			return false, nil
		}
		return true, nil
	})
}

// stop makes the workers close everything and end.
func (c *run) stop() error {
	for _, h := range c.hands {
		h.in.Close()
	}
	var errs []error
	for _, h := range c.hands {
		if err := h.await(); err != nil {
			h.mu.Lock()
			errs = append(errs, fmt.Errorf("%w, doing %v", err, h.doing))
			h.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

// unmount ends the mounts that there are.
func (c *run) unmount() error {
	for _, d := range c.mounts {
		if !d.alive() {
			if !c.fault.mayDie {
				c.failf("the daemon has ended: %s", d.said())
			}
			_ = unix.Unmount(d.dir, unix.MNT_DETACH)
			continue
		}
		c.high = max(c.high, d.highWater())
		said, code, err := command(c.net.A, c.Binary, "umount", d.dir)
		if err != nil {
			return err
		}
		if code != 0 {
			c.failf("umount: exit code %d: %s", code, said)
		}
		if err := d.await(); err != nil {
			return err
		}
	}
	c.gone, c.mounts = append(c.gone, c.mounts...), nil
	return nil
}

// verify reads everything through a fresh mount, and, when the server is dead,
// what it has left.
func (c *run) verify() error {
	if err := c.mount(); err != nil {
		return fmt.Errorf("a fresh mount: %w", err)
	}
	c.compare("through a fresh mount", c.mounts[0].dir)
	if err := c.unmount(); err != nil {
		return fmt.Errorf("unmounting the fresh mount: %w", err)
	}
	if err := c.server.down(); err != nil {
		return err
	}
	c.lost = 0 // counted again
	c.compare("on the server", c.server.Dir)
	return nil
}

func (c *run) compare(where, dir string) {
	for _, h := range c.hands {
		lost, all := h.verify(dir)
		c.lost += lost
		for _, err := range all {
			c.failf("%s, worker %d: %v", where, h.Number, err)
		}
	}
}

// cleanUp ends what is left, and reports what should not be.
func (c *run) cleanUp() {
	clean := len(c.failures) == 0
	for _, h := range c.hands {
		if h.process != nil && h.alive() {
			h.kill()
		}
	}
	for _, d := range c.mounts {
		if d.alive() {
			d.kill()
		}
	}
	if c.server != nil && c.server.process != nil && c.server.alive() {
		c.server.signal(syscall.SIGCONT)
		c.server.kill()
	}
	if b, err := os.ReadFile("/proc/self/mounts"); clean && err == nil && strings.Contains(string(b), " "+c.base+"/mnt") {
		c.failf("a mount is left: %s", b)
	}
	if clean {
		err := poll("the last process", func() (bool, error) {
			left := others()
			return len(left) == 0, nil
		})
		if err != nil {
			c.failf("%v: %q", err, others())
		}
	}
	if c.net != nil {
		if err := c.net.Close(); err != nil {
			c.failf("%v", err)
		}
	}
}

// others are the processes of this namespace that are not this one, its parent,
// or a zombie.
func others() (all []string) {
	ents, _ := os.ReadDir("/proc")
	for _, e := range ents {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || pid == 1 {
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		_, after, _ := strings.Cut(string(b), ") ")
		if !strings.HasPrefix(after, "Z") {
			all = append(all, string(b[:min(len(b), 40)]))
		}
	}
	return all
}

// inside runs this program as a cell in namespaces of its own; what it writes
// goes to out.
func inside(out io.Writer, words ...string) *exec.Cmd {
	// What the host unmounts meanwhile must not stay mounted here: other tests
	// wait for the end of their mounts. Their servers are not contacted.
	script := `umount --all --lazy --no-canonicalize --internal-only --types fuse.rdmafs
		ip link set lo up && mount -t tmpfs tmpfs /run && "$@"; exit $?`
	cmd := exec.Command("unshare", append([]string{"--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
		"--propagation", "slave", "bash", "-c", script, "cell"}, words...)...)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	return cmd
}
