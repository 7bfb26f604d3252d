package torture

import (
	"bufio"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func init() {
	add("daemon stopped", &fault{what: "the daemon is stopped and continued", run: func(c *run) error {
		for range c.rounds(2) {
			c.mounts[0].signal(syscall.SIGSTOP)
			c.injected++
			c.hold()
			c.mounts[0].signal(syscall.SIGCONT)
			if err := c.progress(3, 1); err != nil {
				return err
			}
		}
		return nil
	}})
	add("daemon killed", &fault{what: "the daemon is killed, and its mount ended by umount -f", ends: true, mayDie: true, errors: broken, run: func(c *run) error {
		c.high = c.mounts[0].highWater()
		c.mounts[0].kill()
		c.injected++
		// A thread of it may wait in the kernel for what nobody but the daemon would
		// do: umount -f ends that.
		said, code, err := command(c.net.A, c.Binary, "umount", "-f", c.mounts[0].dir)
		if err == nil && code != 0 {
			err = fmt.Errorf("umount -f: exit code %d: %s", code, said)
		}
		if err != nil {
			return err
		}
		return c.mounts[0].await()
	}})
	add("umount of busy", &fault{what: "umount is refused, and harms nothing", run: func(c *run) error {
		for range c.rounds(3) {
			said, code, err := command(c.net.A, c.Binary, "umount", c.mounts[0].dir)
			if err != nil {
				return err
			}
			if code == 0 {
				return fmt.Errorf("a busy mount was unmounted: %s", said)
			}
			c.injected++
			if err := c.progress(5, 1); err != nil {
				return err
			}
		}
		return nil
	}})
	add("umount lazy", &fault{what: "umount -l: open files go on", ends: true, run: func(c *run) error {
		d := c.mounts[0]
		if err := unix.Unmount(d.dir, unix.MNT_DETACH); err != nil {
			return err
		}
		c.injected++
		if err := c.progress(10, 2); err != nil {
			return err
		}
		c.high = d.highWater()
		if err := c.stop(); err != nil {
			return err
		}
		c.gone, c.mounts = append(c.gone, d), nil
		if err := d.await(); err != nil {
			return err
		}
		if code := d.ProcessState.ExitCode(); code != 0 {
			return fmt.Errorf("the daemon's exit code is %d: %s", code, d.said())
		}
		return nil
	}})
	add("umount forced", &fault{what: "umount -f with dirty data, now and then with a silent server", ends: true, mayDie: true, errors: broken, run: func(c *run) error {
		silent := c.r.IntN(2) == 0
		if silent {
			c.server.signal(syscall.SIGSTOP)
			defer c.server.signal(syscall.SIGCONT)
			c.hold()
		}
		d := c.mounts[0]
		c.high = d.highWater()
		if _, _, err := command(c.net.A, c.Binary, "umount", "-f", d.dir); err != nil {
			return err
		}
		c.injected++
		if err := d.await(); err != nil {
			return err
		}
		c.gone, c.mounts = append(c.gone, d), nil
		return nil
	}})
	add("ulimit -n low", &fault{what: "the daemon may open nothing more while connections are lost", forgets: true, run: func(c *run) error {
		d := c.mounts[0]
		pid := d.Process.Pid
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			return err
		}
		var asking []*process
		restore, err := limit(pid, unix.RLIMIT_NOFILE, uint64(len(fds)/2))
		if err != nil {
			return err
		}
		for range c.rounds(2) {
			if err := c.server.order("crash"); err != nil {
				return err
			}
			c.injected++
			// There is no descriptor for a client of the control socket now.
			p, err := start(c.net.A, "status", nil, c.Binary, "status", d.dir)
			if err != nil {
				return err
			}
			asking = append(asking, p)
			c.hold()
		}
		if err := restore(); err != nil {
			return err
		}
		for _, p := range asking {
			if err := p.await(); err != nil {
				return err
			}
		}
		return nil
	}})
	add("ulimit -v low", &fault{what: "the daemon may map nothing more", mayDie: true, errors: append([]syscall.Errno{syscall.ENOMEM}, broken...), run: func(c *run) error {
		d := c.mounts[0]
		pid := d.Process.Pid
		restore, err := limit(pid, unix.RLIMIT_AS, d.mappedBytes()+1<<20)
		if err != nil {
			return err
		}
		c.injected++
		c.hold()
		_ = restore() // it may have ended: Go ends where the heap cannot grow
		return nil
	}})
	add("pool empty", &fault{what: "many writers wait for a stopped server, more than there are buffers", run: func(c *run) error {
		c.server.signal(syscall.SIGSTOP)
		for range 3 {
			j := job{Kind: c.Kind, Dir: c.mounts[0].dir, Number: c.numbers, Seed: c.Seed, Files: 16}
			c.numbers++
			h, err := startWorker(c.net.A, j)
			if err != nil {
				return err
			}
			c.hands = append(c.hands, h)
		}
		c.injected++
		c.hold()
		c.server.signal(syscall.SIGCONT)
		return nil
	}})
	add("registration refused", &fault{what: "the adapter registers no memory", skip: func(transport, _ string) string {
		return "needs an adapter; iwarp, roce and tcp register nothing outside the process (ulimit -v low stands for it)"
	}})
}

// limit lowers a process's soft limit and returns what restores it.
func limit(pid, what int, to uint64) (restore func() error, err error) {
	var old unix.Rlimit
	if err := unix.Prlimit(pid, what, nil, &old); err != nil {
		return nil, os.NewSyscallError("prlimit", err)
	}
	lower := unix.Rlimit{Cur: min(to, old.Max), Max: old.Max}
	if err := unix.Prlimit(pid, what, &lower, nil); err != nil {
		return nil, os.NewSyscallError("prlimit", err)
	}
	return func() error { return os.NewSyscallError("prlimit", unix.Prlimit(pid, what, &old, nil)) }, nil
}

// mappedBytes is how much the process has mapped.
func (d *daemon) mappedBytes() uint64 { return d.status("VmSize") << 10 }

// highWater is the most memory that the process has had, in KiB.
func (d *daemon) highWater() int { return int(d.status("VmHWM")) }

// status is a field of /proc/PID/status in KiB, 0 when the process is gone.
func (d *daemon) status(field string) (kib uint64) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", d.Process.Pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if n, _ := fmt.Sscanf(s.Text(), field+": %d kB", &kib); n == 1 {
			break
		}
	}
	return kib
}
