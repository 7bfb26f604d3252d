package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rdmafs/rdmafs/test/netns"
)

// guard is after how long something is considered hung. It is far beyond every
// timeout of the mounts, and beyond what a busy machine needs.
const guard = 100 * time.Second

var errHangs = errors.New("hangs")

// process is one that a cell has started.
type process struct {
	*exec.Cmd
	name string
	in   io.WriteCloser
	// ended is closed when it has been waited for.
	ended chan struct{}

	mu  sync.Mutex
	out bytes.Buffer // standard error
}

// Write takes standard error.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out.Len() < 4<<20 {
		p.out.Write(b)
	}
	return len(b), nil
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// start runs a command at a host; each, if any, is given the lines of its
// standard output.
func start(at netns.Host, name string, each func(string), words ...string) (*process, error) {
	p := &process{Cmd: exec.Command(words[0], words[1:]...), name: name, ended: make(chan struct{})}
	p.Stderr = p
	in, err := p.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.in = in
	var out io.ReadCloser
	if each != nil {
		if out, err = p.StdoutPipe(); err != nil {
			return nil, err
		}
	}
	if err := at.Do(p.Start); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var read sync.WaitGroup
	if each != nil {
		read.Go(func() { runRead(out, each) })
	}
	go p.runWait(&read)
	return p, nil
}

func runRead(out io.Reader, each func(string)) { readEvents(out, each) }

func (p *process) runWait(read *sync.WaitGroup) {
	read.Wait()
	_ = p.Wait()
	close(p.ended)
}

func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// await waits for the process to end.
func (p *process) await() error { return p.awaitWithin(guard) }

func (p *process) awaitWithin(limit time.Duration) error {
	select {
	case <-p.ended:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("%s %w", p.name, errHangs)
	}
}

func (p *process) kill() { _ = p.Process.Kill() }

func (p *process) signal(s syscall.Signal) { _ = p.Process.Signal(s) }

// server is the server process of a cell.
type server struct {
	*process
	place
	at      netns.Host
	answers chan string
}

// boot starts the server process and waits until it serves.
func (s *server) boot() error {
	arg, err := json.Marshal(s.place)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		answers := make(chan string, 16)
		s.answers = answers
		s.process, err = start(s.at, "server", func(line string) { answers <- line }, self, "serve", string(arg))
		if err != nil {
			return err
		}
		select {
		case <-s.answers:
			return nil
		case <-s.ended:
			// The port may still belong to one that was killed.
			if try == 20 {
				return fmt.Errorf("server: %s", s.said())
			}
			time.Sleep(50 * time.Millisecond)
		case <-time.After(guard):
			return fmt.Errorf("the server does not start: %w", errHangs)
		}
	}
}

// query sends a command and returns the answer.
func (s *server) query(format string, args ...any) (string, error) {
	return s.queryWithin(guard, fmt.Sprintf(format, args...))
}

func (s *server) queryWithin(limit time.Duration, line string) (string, error) {
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		return "", fmt.Errorf("server: %s: %w", line, err)
	}
	select {
	case a := <-s.answers:
		if strings.HasPrefix(a, "failed") {
			return "", fmt.Errorf("server: %s: %s", line, a)
		}
		return a, nil
	case <-s.ended:
		return "", fmt.Errorf("server: %s: it has ended: %s", line, s.said())
	case <-time.After(limit):
		return "", fmt.Errorf("server: %s: %w", line, errHangs)
	}
}

// order sends a command that succeeds unless the command is wrong.
func (s *server) order(format string, args ...any) error {
	_, err := s.query(format, args...)
	return err
}

// down kills the server.
func (s *server) down() error {
	s.kill()
	return s.await()
}

// daemon is a mount.
type daemon struct {
	*process
	dir string
}

// mountNow mounts with the real command, in the foreground, and waits until the
// mount is usable.
func mountNow(at netns.Host, bin, source, dir, words string) (*daemon, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	p, err := start(at, "daemon", nil, bin, "mount", "-f", source, dir, "-o", words)
	if err != nil {
		return nil, err
	}
	d := &daemon{p, dir}
	err = poll("mounting", func() (bool, error) {
		if !p.alive() {
			return false, fmt.Errorf("mount %s -o %s: %s", source, words, p.said())
		}
		return strings.Contains(p.said(), "mounted "+source), nil
	})
	if err != nil {
		p.kill()
		return nil, err
	}
	return d, nil
}

// mountSoon is mountNow, tried again when there was no answer in time. A mount waits
// no longer for its first connection than for a call, which is short here, and a
// busy machine may need more.
func mountSoon(at netns.Host, bin, source, dir, words string) (d *daemon, err error) {
	for end := time.Now().Add(guard); ; {
		d, err = mountNow(at, bin, source, dir, words)
		if err == nil || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) || time.Now().After(end) {
			return d, err
		}
	}
}

// poll waits for something that has no event of its own.
func poll(what string, ok func() (bool, error)) error {
	for end := time.Now().Add(guard); ; time.Sleep(2 * time.Millisecond) {
		if done, err := ok(); done || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s %w", what, errHangs)
		}
	}
}

// command runs a command to its end and returns its output.
func command(at netns.Host, words ...string) (said string, code int, err error) {
	return commandWithin(guard, at, words...)
}

func commandWithin(limit time.Duration, at netns.Host, words ...string) (said string, code int, err error) {
	var out strings.Builder
	p, err := start(at, strings.Join(words, " "), func(line string) { out.WriteString(line + "\n") }, words...)
	if err != nil {
		return "", 0, err
	}
	if err := p.awaitWithin(limit); err != nil {
		p.kill()
		return "", 0, err
	}
	return out.String() + p.said(), p.ProcessState.ExitCode(), nil
}
