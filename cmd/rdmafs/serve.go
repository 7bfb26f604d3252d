package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/rdmafs/rdmafs/internal/daemon"
	"github.com/rdmafs/rdmafs/internal/serve"
	"github.com/rdmafs/rdmafs/internal/session"
)

// serve mounts, reports to the command that is waiting, and serves until the mount
// ends. The first SIGINT or SIGTERM unmounts; a second one ends the process, as by
// default.
func (m *mountArgs) serve() error {
	log := newLogger(m.foreground, m.debug, m.dir)
	m.Log, m.Idle = log, giveBack
	fail := func(err error) error { return withCode(exitFail, session.NameSource(m.Source, err)) }

	signalled, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(signalled, stop)
	ctx := signalled
	ready, note := func() error { return nil }, func(string) {}
	if daemon.Is() {
		// The command that reads standard error may end first.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
		var giveUp context.CancelFunc
		ctx, giveUp = context.WithCancel(ctx)
		defer giveUp()
		p, err := daemon.NewParent(giveUp)
		if err != nil {
			return withCode(exitSystem, err)
		}
		ready, note = p.Ready, p.Note
	}
	mounted, err := serve.Start(ctx, serve.Config{Config: m.Config, Dir: m.dir, Debug: m.debug, Busy: func(err error) {
		log.Warn(fmt.Sprintf("cannot unmount on signal: %v (a second signal ends the process and loses unwritten data)", err))
	}})
	if err != nil {
		return fail(err)
	}
	s := mounted.Session()
	if short := s.Note(); short != "" {
		log.Warn("note: " + short)
		note(fmt.Sprintf("note: %s: %s", m.Source.Text, short))
	}
	if short := s.LockNote(); short != "" { // the log has it
		note(fmt.Sprintf("note: %s: %s", m.Source.Text, short))
	}
	if err := ready(); err != nil {
		log.Warn(fmt.Sprintf("the command that asked for the mount ended before it was usable: %v", err))
		_ = mounted.Detach() // lazily: another process may have files open on it
	} else {
		log.Info(fmt.Sprintf("mounted %s (%s, %s)", m.Source.Text, s.How(), s.Client().Info().Version))
	}
	if err := mounted.Serve(ctx); err != nil {
		return fail(err)
	}
	return nil
}

// giveBack gives the system what the heap does not need any more. The runtime would collect
// only after two minutes without work, and what is in a sync.Pool lasts for two collections.
func giveBack() {
	runtime.GC()
	debug.FreeOSMemory()
}
