package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/rdmafs/rdmafs/internal/daemon"
	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/internal/serve"
	"github.com/rdmafs/rdmafs/internal/session"
)

// serve mounts, reports to the command that is waiting, and serves until the mount
// ends. The first SIGINT or SIGTERM unmounts; a second one ends the process, as by
// default.
func (m *mountArgs) serve() error {
	log, err := newLogger(m)
	if err != nil {
		return withCode(exitFail, fmt.Errorf("%s: %w", m.Source.Text, err))
	}
	m.Log, m.Idle = log.Logger, giveBack
	forgetCrash, err := keepCrash(log, m.dir)
	if err != nil {
		log.Warn(fmt.Sprintf("should this process crash, its trace is lost: %v", err))
	}
	defer forgetCrash()
	shown, err := listenFor(&m.Options)
	if err != nil {
		return withCode(exitFail, fmt.Errorf("%s: %w", m.Source.Text, err))
	}
	defer shown.close()
	fail := func(err error) error { return withCode(exitFail, session.NameSource(m.Source, err)) }

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	interruptible := func() {
		var release context.CancelFunc
		ctx, release = signal.NotifyContext(ctx, os.Interrupt)
		context.AfterFunc(ctx, func() { release(); stop() })
	}
	announce, note := func() error { return nil }, func(string) {}
	if !daemon.Is() {
		interruptible()
	} else {
		// The command that reads standard error may end first.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
		var giveUp context.CancelFunc
		ctx, giveUp = context.WithCancel(ctx)
		defer giveUp()
		p, err := daemon.NewParent(giveUp)
		if err != nil {
			return withCode(exitSystem, err)
		}
		note = p.Note
		announce = sync.OnceValue(func() error {
			p.Leave()
			interruptible()
			return p.Ready()
		})
	}
	for _, n := range m.Options.Notes {
		log.Warn("note: " + n)
		note("note: " + n)
	}
	inBackground := false
	mounted, err := serve.Start(ctx, serve.Config{
		Config: m.Config, Dir: m.dir, Device: m.device, Debug: m.debug, SetLog: log.set, LogPlace: log.place, Ended: log.ended, Replace: m.dead,
		Busy: func(err error) {
			log.Warn(fmt.Sprintf("cannot unmount on signal: %v (a second signal ends the process and loses unwritten data)", err))
		},
		Away: func(err error) {
			inBackground = m.Options.Background
			said := fmt.Sprintf("%s (%s)", plain.OneLine(session.NameSource(m.Source, err)), m.trying())
			log.Warn(said)
			note(said)
			if inBackground {
				_ = announce() // a parent that has ended ends ctx
			}
		},
	})
	if err != nil {
		if inBackground {
			log.Error(fmt.Sprintf("not mounted: %v", err))
		}
		return fail(err)
	}
	shown.serve(mounted)
	s := mounted.Session()
	if short := s.Note(); short != "" {
		log.Warn("note: " + short)
		note(fmt.Sprintf("note: %s: %s", m.Source.Text, short))
	}
	if short := s.LockNote(); short != "" { // the log has it
		note(fmt.Sprintf("note: %s: %s", m.Source.Text, short))
	}
	how := fmt.Sprintf("mounted %s (%s, %s)", m.Source.Text, s.How(), s.Client().Info().Version)
	if m.verbose {
		note(how + " on " + m.dir)
	}
	log.Info(how) // before the command returns: who then looks at the log finds it
	if err := announce(); err != nil {
		log.Warn(fmt.Sprintf("the command that asked for the mount ended before it was usable: %v", err))
		_ = mounted.Detach() // lazily: another process may have files open on it
	}
	if err := mounted.Serve(ctx); err != nil {
		return fail(err)
	}
	return nil
}

// trying says for how long a server that is away is tried again.
func (m *mountArgs) trying() string {
	patience := m.Options.Patience()
	if m.Options.Background {
		return fmt.Sprintf("bg: process %d goes on trying for %s in the background", os.Getpid(), patience)
	}
	return fmt.Sprintf("trying again for %s; retry=0 gives up at once", patience)
}

// giveBack gives the system what the heap does not need any more. The runtime would collect
// only after two minutes without work, and what is in a sync.Pool lasts for two collections.
func giveBack() {
	runtime.GC()
	debug.FreeOSMemory()
}
