//go:build cgo && linux

package ibv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// poller waits for a descriptor of the library in the runtime's poller. It owns
// a duplicate: the library closes the original.
type poller struct {
	file *os.File
	raw  syscall.RawConn
	// done and disarm are of the context for whose end waitSame has a wake set.
	done   <-chan struct{}
	disarm func() bool
}

// past, as a deadline, ends a wait at once.
var past = time.Unix(1, 0)

// newPoller borrows fd, which is non-blocking.
func newPoller(fd int, name string) (*poller, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f := os.NewFile(uintptr(dup), name)
	raw, err := f.SyscallConn()
	if err == nil {
		// Fails when the descriptor is not one for the poller.
		err = f.SetReadDeadline(time.Time{})
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &poller{file: f, raw: raw}, nil
}

// wait calls ready until it returns true, each time that the descriptor may
// have something. It returns errWoken after wake, also one before.
func (p *poller) wait(ready func(fd uintptr) bool) error {
	err := p.raw.Read(ready)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = p.file.SetReadDeadline(time.Time{})
		return errWoken
	}
	return err
}

var errWoken = errors.New("woken")

// wake ends a wait, or the next one.
func (p *poller) wake() { _ = p.file.SetReadDeadline(past) }

// waitContext is wait that ends with ctx, too.
func (p *poller) waitContext(ctx context.Context, ready func(fd uintptr) bool) error {
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, p.wake)
		defer stop()
	}
	return p.wait(ready)
}

// waitSame is waitContext for one goroutine at a time, whose successive calls mostly have the same ctx: that is watched once.
// ctx has not ended, as far as the caller knows; an end that comes between two calls may end the second, whatever its ctx.
func (p *poller) waitSame(ctx context.Context, ready func(fd uintptr) bool) error {
	if done := ctx.Done(); done != p.done {
		p.forget()
		if done != nil {
			p.done, p.disarm = done, context.AfterFunc(ctx, p.wake)
		}
	}
	return p.wait(ready)
}

// forget watches no context any more. Nobody is in waitSame, or will be.
func (p *poller) forget() {
	if p.disarm != nil {
		p.disarm()
	}
	p.done, p.disarm = nil, nil
}

func (p *poller) close() { p.file.Close() }
