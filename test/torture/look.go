package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// answerTimeout is how long a process may take to answer about itself.
const answerTimeout = 20 * time.Second

// processes are the living ones of the cell.
func (c *run) processes() (all []*process) {
	add := func(p *process) {
		if p != nil && p.alive() {
			all = append(all, p)
		}
	}
	for _, h := range c.hands {
		add(h.process)
	}
	for _, d := range c.mounts {
		add(d.process)
	}
	if c.server != nil {
		add(c.server.process)
	}
	return all
}

// look records the state of each process of a cell that has failed, where its
// threads are in the kernel, and the counters of mounts. It changes nothing.
func (c *run) look() {
	for _, p := range c.processes() {
		state, threads := p.inKernel()
		c.failf("%s (process %d) is in state %s", p.name, p.Process.Pid, state)
		fmt.Fprintf(&c.seen, "%s, process %d, in the kernel:\n%s", p.name, p.Process.Pid, threads)
	}
	for _, h := range c.hands {
		h.mu.Lock()
		if len(h.doing) > 0 {
			c.failf("%s is at: %v", h.name, h.doing)
		}
		h.mu.Unlock()
	}
	for _, d := range c.mounts {
		said, _, err := commandWithin(answerTimeout, c.net.A, c.Binary, "stats", d.dir)
		if err != nil {
			said += fmt.Sprintln(err)
		}
		fmt.Fprintf(&c.seen, "stats of %s:\n%s", d.dir, said)
	}
}

var stateLine = regexp.MustCompile(`(?m)^State:\s*(.*)$`)

// inKernel is the state of a process, and state and stack of each of its threads.
func (p *process) inKernel() (state, threads string) {
	of := func(dir string) string {
		b, err := os.ReadFile(dir + "/status")
		if m := stateLine.FindSubmatch(b); m != nil {
			return string(m[1])
		}
		return fmt.Sprint("unknown: ", err)
	}
	dir := fmt.Sprintf("/proc/%d", p.Process.Pid)
	state = of(dir)
	tasks, _ := filepath.Glob(dir + "/task/*")
	for _, t := range tasks {
		stack, err := os.ReadFile(t + "/stack")
		if err != nil {
			stack = fmt.Appendln(nil, err)
		}
		threads += fmt.Sprintf("thread %s, %s\n%s", filepath.Base(t), of(t), stack)
	}
	return state, threads
}

// dump makes daemons and server print their goroutines, and the server its counters.
// It ends them.
func (c *run) dump() {
	c.dumped = true
	for _, d := range c.mounts {
		d.quit()
	}
	if s := c.server; s != nil && s.process != nil && s.alive() {
		s.signal(syscall.SIGCONT)
		said, err := s.queryWithin(answerTimeout, "stats")
		fmt.Fprintf(&c.seen, "the server has counted: %s %v\n", said, err)
		s.quit()
	}
}

// quit makes a Go program print its goroutines, which ends it.
func (p *process) quit() {
	if !p.alive() {
		return
	}
	p.signal(syscall.SIGQUIT)
	p.signal(syscall.SIGCONT)
	select {
	case <-p.ended:
	case <-time.After(answerTimeout):
	}
}
