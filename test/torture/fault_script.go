package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func init() {
	add("file silent", &fault{what: "the server never answers calls for one file, whose readers are killed", run: func(c *run) error {
		const number = 99
		if err := c.server.order("freeze w%d-1", number); err != nil {
			return err
		}
		others := c.hands
		h, err := startWorker(c.net.A, job{Kind: "buffered", Dir: c.mounts[0].dir, Number: number, Seed: c.Seed, Files: 1})
		if err != nil {
			return err
		}
		c.hands = append(c.hands, h)
		if err := c.struck(1); err != nil {
			return err
		}
		if err := c.killReaders(filepath.Join(c.mounts[0].dir, fmt.Sprintf("w%d-1", number)), 24); err != nil {
			return err
		}
		for range c.rounds(2) {
			if err := c.progressOf(others, 5, 1); err != nil {
				return fmt.Errorf("beside a file that hangs: %w", err)
			}
		}
		return c.clear()
	}})
	add("replies truncated", &fault{what: "replies are cut short", forgets: true, errors: []syscall.Errno{syscall.EIO}, run: func(c *run) error {
		return c.scripted("truncate 5")
	}})
	add("replies doubled", &fault{what: "replies come twice", proxy: true, run: func(c *run) error {
		return c.scripted("double 20")
	}})
	add("replies late", &fault{what: "replies come after the call has been sent again", forgets: true, run: func(c *run) error {
		return c.scripted("late 10 3000")
	}})
	add("replies foreign", &fault{what: "replies have the XID of no call", forgets: true, proxy: true, run: func(c *run) error {
		return c.scripted("foreign 3")
	}})
	add("credits to 1", &fault{what: "the server grants one credit for a while", skip: func(transport, _ string) string {
		if transport == "tcp" {
			return "TCP has no credits"
		}
		return ""
	}, run: func(c *run) error {
		return c.scripted("credits 1")
	}})
	add("clock jumps", &fault{what: "the server's clock jumps, both ways", run: func(c *run) error {
		for range c.rounds(2) {
			if err := c.scripted(fmt.Sprintf("clock %d", c.r.IntN(20_000)-10_000)); err != nil {
				return err
			}
		}
		return nil
	}})
	add("export full", &fault{what: "the server's disk is full for a while", errors: []syscall.Errno{syscall.ENOSPC, syscall.EIO}, run: (*run).full})
	add("callers forked", &fault{what: "children inherit files being written, and close them; the disk is full for a while", fork: true,
		errors: []syscall.Errno{syscall.ENOSPC, syscall.EIO}, run: func(c *run) error {
			if err := c.progress(10, 2); err != nil {
				return err
			}
			return c.full()
		}})
}

// killReaders makes n processes wait for a file and kills them.
func (c *run) killReaders(path string, n int) error {
	var all []*process
	for range n {
		p, err := start(c.net.A, "reader", nil, "cat", path)
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	// Not all need be waiting by then, but some will be.
	c.hold()
	for _, p := range all {
		p.kill()
	}
	for _, p := range all {
		if err := p.await(); err != nil {
			return err
		}
	}
	return nil
}

// clear ends a script and counts the calls it has changed.
func (c *run) clear() error {
	answer, err := c.server.query("struck")
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(answer)
	c.injected = n
	if err != nil {
		return err
	}
	return c.server.order("clear")
}

// struck waits until so many calls have been tampered with.
func (c *run) struck(n int) error {
	return poll("a call that is tampered with", func() (bool, error) {
		answer, err := c.server.query("struck")
		if err != nil {
			return false, err
		}
		got, err := strconv.Atoi(answer)
		return got >= n, err
	})
}

// scripted requires progress of every worker while the server follows a script.
func (c *run) scripted(line string) error {
	before := c.injected
	if err := c.server.order("%s", line); err != nil {
		return err
	}
	for range c.rounds(2) {
		if err := c.progress(10, 1); err != nil {
			return err
		}
	}
	if err := c.struck(before + 1); err != nil {
		return err
	}
	return c.clear()
}

// full fills the disk, and frees it when a worker has got an error.
func (c *run) full() error {
	name := filepath.Join(c.server.Dir, "filler")
	for range c.rounds(2) {
		f, err := os.Create(name)
		if err != nil {
			return err
		}
		size := int64(0)
		for step := int64(64 << 20); step >= page; {
			if err := unix.Fallocate(int(f.Fd()), 0, size, step); err != nil {
				step /= 2
				continue
			}
			size += step
		}
		c.injected++
		// A worker that only overwrites gets no error.
		c.hold()
		if err := f.Close(); err != nil {
			return err
		}
		if err := os.Remove(name); err != nil {
			return err
		}
		if err := c.progress(5, 1); err != nil {
			return err
		}
	}
	return nil
}
