package torture

import (
	"fmt"
	"syscall"
)

func init() {
	add("server killed", &fault{what: "the server is killed and starts again after a while", forgets: true, run: func(c *run) error {
		for range c.rounds(2) {
			if err := c.server.down(); err != nil {
				return err
			}
			c.injected++
			c.hold()
			if err := c.server.boot(); err != nil {
				return err
			}
			if err := c.progress(3, 1); err != nil {
				return err
			}
		}
		return nil
	}})
	add("server stopped", &fault{what: "the server is stopped for longer than timeo, and continued", run: func(c *run) error {
		for range c.rounds(2) {
			c.server.signal(syscall.SIGSTOP)
			c.injected++
			c.hold()
			c.server.signal(syscall.SIGCONT)
			if err := c.progress(3, 1); err != nil {
				return err
			}
		}
		return nil
	}})
	add("unstable data lost", &fault{what: "the server is killed and starts again without what was not committed", lossy: true, forgets: true, run: func(c *run) error {
		for range c.rounds(4) {
			if err := c.server.down(); err != nil {
				return err
			}
			c.injected++
			if err := c.server.boot(); err != nil {
				return err
			}
			if err := c.progress(1, 1); err != nil {
				return err
			}
		}
		return nil
	}})
	add("server rebooted", &fault{what: "another boot verifier, no unstable data, no memory of calls, all connections lost", lossy: true, forgets: true, run: func(c *run) error {
		for range c.rounds(10) {
			if err := c.server.order("crash"); err != nil {
				return err
			}
			c.injected++
			if err := c.progress(1, 0); err != nil {
				return err
			}
		}
		return nil
	}})
	add("export remounted", &fault{what: "for a while every handle is stale", forgets: true,
		errors: []syscall.Errno{syscall.ESTALE, syscall.EIO, syscall.ENOENT, syscall.EEXIST, syscall.EFAULT}, run: func(c *run) error {
			for _, id := range []uint32{8, 7} {
				if err := c.server.down(); err != nil {
					return err
				}
				c.server.ID = id
				if err := c.server.boot(); err != nil {
					return err
				}
				c.injected++
				if id == 8 {
					if err := c.staleSeen(); err != nil {
						return err
					}
				}
			}
			return nil
		}})
}

// rounds is how often to repeat a fault.
func (c *run) rounds(n int) int {
	if c.Long {
		return 3 * n
	}
	return n
}

// staleSeen waits until every worker has met the stale handles: it has been told
// of an error, or so many of its calls were acknowledged since that the mount
// must have asked MOUNT for the root again and have walked the path from there.
// The second is what a worker sees that has no file open with changes in it: one
// that uses names alone, or whose files are full.
func (c *run) staleSeen() error {
	const enough = 32
	marks := map[*workerProc]int{}
	for _, h := range c.hands {
		_, marks[h] = h.done()
	}
	return poll("every worker's meeting the stale handles", func() (bool, error) {
		for h, mark := range marks {
			_, acks := h.done()
			if h.told() || acks >= mark+enough {
				continue
			}
			if !h.alive() {
				return false, fmt.Errorf("%s ended without an error: %s", h.name, h.said())
			}
			return false, nil
		}
		return true, nil
	})
}
