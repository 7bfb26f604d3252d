package knfsd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/rdmafs/rdmafs/test/knfsd/guest/ctl"
)

// maxOutput bounds what one command may print.
const maxOutput = 16 << 20

var (
	// ErrGone is a guest that has ended, or whose agent has.
	ErrGone = errors.New("knfsd: the guest is gone")
	// ErrOutput is a command that printed more than is kept.
	ErrOutput = errors.New("knfsd: the command's output is too long")
)

// ExitError is a command that ended with a code other than zero.
type ExitError struct {
	Command string
	Code    int
	Output  string
}

// Error shows all of it: these errors are read in the report of a failed test.
func (e *ExitError) Error() string {
	return fmt.Sprintf("knfsd: in the guest: %s: exit code %d\n%s", e.Command, e.Code, e.Output)
}

// controller is our end of the agent's stream. runReader is its one reader;
// close joins it.
type controller struct {
	f     *os.File
	ready chan struct{} // closed by the agent's Hello
	done  chan struct{} // closed when the reader has ended

	sending sync.Mutex // one frame at a time

	mu     sync.Mutex
	last   uint32
	active map[uint32]*session
	over   bool // no more sessions
}

// session is one command. The reader alone writes it until done is closed.
type session struct {
	output bytes.Buffer
	code   int
	err    error
	done   chan struct{}
}

func newController(f *os.File) *controller {
	c := &controller{
		f:      f,
		ready:  make(chan struct{}),
		done:   make(chan struct{}),
		active: make(map[uint32]*session),
	}
	go c.runReader()
	return c
}

// close ends the stream and waits for the reader.
func (c *controller) close() error {
	err := c.f.Close()
	<-c.done
	return err
}

func (c *controller) send(f ctl.Frame) error {
	b, err := ctl.Append(nil, f)
	if err != nil {
		return err
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	if _, err := c.f.Write(b); err != nil {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return nil
}

func (c *controller) runReader() {
	defer close(c.done)
	in := bufio.NewReader(c.f)
	for {
		f, err := ctl.Read(in)
		if err == nil {
			err = c.take(f)
		}
		if err != nil {
			c.abandon(fmt.Errorf("%w: %w", ErrGone, err))
			return
		}
	}
}

// take acts on one frame. Its error ends the stream.
func (c *controller) take(f ctl.Frame) error {
	if f.Kind == ctl.Hello {
		select {
		case <-c.ready:
			return errors.New("the agent said hello twice")
		default:
			close(c.ready)
			return nil
		}
	}
	c.mu.Lock()
	s := c.active[f.ID]
	c.mu.Unlock()
	if s == nil {
		return fmt.Errorf("frame %d of unknown command %d", f.Kind, f.ID)
	}
	switch f.Kind {
	case ctl.Output:
		if s.output.Len()+len(f.Body) > maxOutput {
			s.err = ErrOutput
			return nil
		}
		s.output.Write(f.Body)
		return nil
	case ctl.Exit:
		code, err := ctl.Code(f.Body)
		if err != nil {
			return err
		}
		s.code = code
	case ctl.Failed:
		s.err = fmt.Errorf("knfsd: in the guest: %s", f.Body)
	default:
		return fmt.Errorf("unexpected frame %d", f.Kind)
	}
	c.mu.Lock()
	delete(c.active, f.ID)
	c.mu.Unlock()
	close(s.done)
	return nil
}

// abandon ends every session with err.
func (c *controller) abandon(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for id, s := range c.active {
		s.err = err
		close(s.done)
		delete(c.active, id)
	}
}

// begin starts a command.
func (c *controller) begin(command string) (uint32, *session, error) {
	s := &session{done: make(chan struct{})}
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return 0, nil, ErrGone
	}
	c.last++
	id := c.last
	c.active[id] = s
	c.mu.Unlock()
	err := c.send(ctl.Frame{Kind: ctl.Start, ID: id, Body: []byte(command)})
	if err != nil {
		c.mu.Lock()
		delete(c.active, id)
		c.mu.Unlock()
		return 0, nil, err
	}
	return id, s, nil
}

// run executes a command. When ctx ends first the command is killed and not
// waited for: a process that hangs on a dead mount does not go away.
func (c *controller) run(ctx context.Context, command string) (output string, code int, err error) {
	id, s, err := c.begin(command)
	if err != nil {
		return "", -1, err
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		return "", -1, errors.Join(ctx.Err(), c.send(ctl.Frame{Kind: ctl.Kill, ID: id}))
	}
	if s.err != nil {
		return s.output.String(), -1, s.err
	}
	return s.output.String(), s.code, nil
}
