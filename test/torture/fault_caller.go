package torture

import (
	"io"
	"syscall"
)

func init() {
	add("callers killed", &fault{what: "workers are killed in the middle, now and then all of them while the server is stopped", files: 8, run: func(c *run) error {
		for range c.rounds(2) {
			silent := c.r.IntN(2) == 0
			if silent {
				c.server.signal(syscall.SIGSTOP)
				c.hold()
			}
			var killed []*workerProc
			for _, h := range c.hands {
				// To create, remove or rename, a process takes a lock of the directory in
				// the kernel and holds it until the server has answered. Others wait for
				// that lock where no signal reaches them, so that one that is killed ends
				// only when the one with the lock does.
				if h.alive() && (silent || len(killed) == 0 || c.r.IntN(2) == 0) {
					h.kill()
					killed = append(killed, h)
					c.injected++
				}
			}
			// A process that waits for the server must end by this, too. If one does
			// not, the server stays stopped, so that the state can be examined.
			for _, h := range killed {
				if err := h.await(); err != nil {
					return err
				}
			}
			if silent {
				c.server.signal(syscall.SIGCONT)
			}
			for range killed {
				if _, err := c.startWorker(c.mounts[0]); err != nil {
					return err
				}
			}
			if err := c.progress(3, 1); err != nil {
				return err
			}
		}
		return nil
	}})
	add("callers exec", &fault{what: "workers execute themselves anew in the middle", run: func(c *run) error {
		for range c.rounds(3) {
			for _, h := range c.hands {
				if _, err := io.WriteString(h.in, "!"); err != nil {
					return err
				}
				c.injected++
			}
			if err := c.progress(5, 1); err != nil {
				return err
			}
		}
		return nil
	}})
	add("two mounts, one file", &fault{what: "two mounts, each with its own parts of one file, under locks; the server is killed", mounts: 2, shared: true, forgets: true,
		skip: func(_, kind string) string {
			if kind == "append" {
				return "two clients that append to one file overwrite each other, as on any NFS client"
			}
			return ""
		}, run: func(c *run) error {
			for range c.rounds(2) {
				if err := c.progress(10, 2); err != nil {
					return err
				}
				if err := c.server.down(); err != nil {
					return err
				}
				c.injected++
				if err := c.server.boot(); err != nil {
					return err
				}
			}
			return nil
		}})
}
