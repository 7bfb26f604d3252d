package filecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/filetree"
	"github.com/rdmafs/rdmafs/internal/plain"
)

// Commands are all of this package's commands, but for sync.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		newCp(), newCat(), newLs(), newStat(), newDu(), newRm(), newMkdir(), newChecksum(),
	}
}

// exitInterrupted is the exit code of a shell's command that SIGINT has ended.
const exitInterrupted = 130

// ExitError is an error with an exit code. Others have 1.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string { return e.Err.Error() }
func (e *ExitError) Unwrap() error { return e.Err }

// closeTimeout bounds ending the use of the exports after a command was interrupted.
const closeTimeout = 5 * time.Second

// run is one execution of a command.
type run struct {
	name string
	out  io.Writer
	tty  bool // out is a terminal
	*exports

	mu     sync.Mutex // guards what follows, and writing to errs
	errs   io.Writer
	failed int
	clear  string // takes back the line of progress on errs
}

// execute carries out a command, until a signal comes. It fails if body fails, or has called
// fail.
func execute(cmd *cobra.Command, words []string, body func(ctx context.Context, r *run) error) error {
	x, err := newExports(words)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := &run{name: cmd.Name(), out: cmd.OutOrStdout(), errs: cmd.ErrOrStderr(), tty: isTerminal(cmd.OutOrStdout()), exports: x}
	err = body(ctx, r)
	closing := context.Background()
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		closing, cancel = context.WithTimeout(closing, closeTimeout)
		defer cancel()
	}
	err = errors.Join(err, x.close(closing))
	switch {
	case ctx.Err() != nil:
		return &ExitError{exitInterrupted, errors.Join(errors.New("interrupted"), err)}
	case err != nil:
		return err
	case r.failed > 0:
		return fmt.Errorf("%s: %d of what was asked for failed", r.name, r.failed)
	}
	return nil
}

// fail says an error and has the command fail at its end.
func (r *run) fail(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return // execute says that it was interrupted
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed++
	fmt.Fprint(r.errs, r.clear)
	plain.Fprintf(r.errs, "rdmafs: %s: %s\n", r.name, plain.OneLine(err))
}

// show is a name as it is printed.
func (r *run) show(name string) string {
	if r.tty {
		return plain.Text(name)
	}
	return name
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// umask is this process's.
func umask() fs.FileMode {
	m := syscall.Umask(0)
	syscall.Umask(m)
	return fs.FileMode(m) & fs.ModePerm
}

// each calls f with each operand's tree and name, and says what fails.
func (r *run) each(ctx context.Context, args []string, parse func(string) (operand, error), f func(o operand, t filetree.Tree, name string) error) error {
	for _, a := range args {
		o, err := parse(a)
		if err != nil {
			return err
		}
		t, name, err := r.find(ctx, o)
		if err == nil {
			err = f(o, t, name)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			r.fail(inWords(o, err))
		}
	}
	return nil
}

// inWords is an error with the name that the user gave, in place of that in the export.
func inWords(o operand, err error) error {
	var pe *fs.PathError
	if o.remote && errors.As(err, &pe) && err == error(pe) {
		return fmt.Errorf("%s: %w", o.text, pe.Err)
	}
	return err
}

// optionsFlag is -o of all commands.
func optionsFlag(cmd *cobra.Command) *[]string {
	return cmd.Flags().StringArrayP("options", "o", nil, "mount options, comma separated (rdmafs mount --help lists them)")
}

func needArgs(cmd *cobra.Command, args []string, least int, what string) error {
	if len(args) < least {
		return fmt.Errorf("%s wants %s", cmd.Name(), what)
	}
	return nil
}
