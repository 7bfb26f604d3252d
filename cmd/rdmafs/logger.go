package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"log/syslog"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/rdmafs/rdmafs/internal/journal"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/internal/status"
)

// mountLog is the log of a mount.
type mountLog struct {
	*slog.Logger
	level *slog.LevelVar
	// file is that of logfile=, nil without.
	file *os.File
	// place is where the log goes, as status.InForce has it.
	place string
	// own is the log of a daemon that has no other; nil otherwise.
	own *boundedLog
}

// levels are those of options.LogLevels.
var levels = []slog.Level{slog.LevelError, slog.LevelWarn, slog.LevelInfo, slog.LevelDebug}

// set changes from which level on l logs.
func (l *mountLog) set(word string) error {
	i := slices.Index(options.LogLevels, word)
	if i < 0 {
		return fmt.Errorf("log levels are %s", strings.Join(options.LogLevels, ", "))
	}
	l.level.Set(levels[i])
	return nil
}

// newLogger logs to the file of logfile=, to standard error in the foreground, and else to journald, or to syslog where there
// is none, with the level as severity. Without either a daemon keeps a file of its own, of bounded size. Each is one plain
// line, even if it quotes a server.
func newLogger(m *mountArgs) (*mountLog, error) {
	l := &mountLog{level: new(slog.LevelVar)}
	o := &m.Options
	if err := l.set(o.LogLevel()); err != nil {
		return nil, err
	}
	if o.LogFile != "" {
		f, err := os.OpenFile(o.LogFile, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
		if err != nil {
			return nil, fmt.Errorf("logfile=: %w", err)
		}
		l.file = f
	}
	if m.foreground {
		log.SetOutput(plain.Lines(os.Stderr)) // the requests that -d shows
	}
	if l.file == nil && !m.foreground {
		if j, err := openJournal(journal.Socket, m); err == nil {
			l.place = status.LogJournal
			l.Logger = slog.New(l.journal(j, o.LogFormat, m.dir))
			return l, nil
		}
		s, err := syslog.New(syslog.LOG_DAEMON|syslog.LOG_NOTICE, "rdmafs")
		if err != nil {
			return l, l.keep(o.LogFormat, m.dir)
		}
		l.place = status.LogSyslog
		l.Logger = slog.New(l.syslog(s, o.LogFormat, m.dir))
		return l, nil
	}
	to := io.Writer(os.Stderr)
	l.place = status.LogStderr
	if l.file != nil {
		to, l.place = l.file, o.LogFile
	}
	l.Logger = slog.New(l.stream(to, o.LogFormat, m.dir))
	return l, nil
}

// keep logs to a file in the runtime directory. Without one, messages are dropped: the mount
// itself would fail for want of the directory.
func (l *mountLog) keep(format, dir string) error {
	l.Logger = slog.New(slog.DiscardHandler)
	name, err := runtimeLog(dir)
	if err != nil {
		return nil
	}
	own, err := openBoundedLog(name)
	if err != nil {
		return fmt.Errorf("the log: %w", err)
	}
	l.own, l.place = own, name
	l.Logger = slog.New(l.stream(own, format, dir))
	return nil
}

// ended is called when the mount has ended: only what went wrong need be explained.
func (l *mountLog) ended(err error) {
	if l.own != nil && err == nil {
		l.own.remove()
	}
}

// stream writes lines with their time.
func (l *mountLog) stream(to io.Writer, format, dir string) slog.Handler {
	if format == "json" {
		return l.json(func(_ slog.Level, line string) error {
			_, err := io.WriteString(to, line)
			return err
		}, dir)
	}
	out := log.New(plain.Lines(to), "rdmafs: "+dir+": ", log.LstdFlags|log.Lmsgprefix)
	return &lineHandler{level: l.level, write: func(_ slog.Level, line string) error { return out.Output(0, line) }}
}

// openJournal is the way to journald for a mount: each of its records says which mount it is about.
func openJournal(socket string, m *mountArgs) (*journal.Journal, error) {
	return journal.Open(socket, journal.Field{Name: "SYSLOG_IDENTIFIER", Value: "rdmafs"},
		journal.Field{Name: "SYSLOG_FACILITY", Value: strconv.Itoa(int(syslog.LOG_DAEMON >> 3))},
		journal.Field{Name: status.FieldMountPoint, Value: m.dir},
		journal.Field{Name: "RDMAFS_SERVER", Value: m.Source.Host}, journal.Field{Name: "RDMAFS_EXPORT", Value: m.Source.Export})
}

// journal writes records with their severity, whose message is what syslog would have.
func (l *mountLog) journal(j *journal.Journal, format, dir string) slog.Handler {
	if format == "json" {
		return l.json(func(at slog.Level, line string) error {
			return j.Send(int(priority(at)), strings.TrimSuffix(line, "\n"))
		}, dir)
	}
	return &lineHandler{level: l.level, write: func(at slog.Level, line string) error {
		return j.Send(int(priority(at)), plain.Text(dir+": "+line))
	}}
}

// syslog writes lines with their severity.
func (l *mountLog) syslog(s *syslog.Writer, format, dir string) slog.Handler {
	if format == "json" {
		return l.json(func(at slog.Level, line string) error { return severity(s, at)(strings.TrimSuffix(line, "\n")) }, dir)
	}
	return &lineHandler{level: l.level, write: func(at slog.Level, line string) error {
		return severity(s, at)(plain.Text(dir + ": " + line))
	}}
}

// priority is the severity that a level has in logs of the system.
func priority(at slog.Level) syslog.Priority {
	switch {
	case at >= slog.LevelError:
		return syslog.LOG_ERR
	case at >= slog.LevelWarn:
		return syslog.LOG_WARNING
	case at >= slog.LevelInfo:
		return syslog.LOG_NOTICE
	}
	return syslog.LOG_DEBUG
}

// severity is the function that writes to syslog with the severity of a level.
func severity(s *syslog.Writer, at slog.Level) func(string) error {
	switch priority(at) {
	case syslog.LOG_ERR:
		return s.Err
	case syslog.LOG_WARNING:
		return s.Warning
	case syslog.LOG_NOTICE:
		return s.Notice
	}
	return s.Debug
}

// json writes records as an object each.
func (l *mountLog) json(write func(slog.Level, string) error, dir string) slog.Handler {
	return jsonHandler{level: l.level, write: write, with: func(h slog.Handler) slog.Handler {
		return h.WithAttrs([]slog.Attr{slog.String("mount", dir)})
	}}
}

// jsonHandler writes a record as a JSON text on a line, whose strings are plain.
type jsonHandler struct {
	level slog.Leveler
	write func(level slog.Level, line string) error
	with  func(slog.Handler) slog.Handler // adds attributes and groups
}

func (h jsonHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

func (h jsonHandler) Handle(ctx context.Context, r slog.Record) error {
	var b strings.Builder
	if err := h.with(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: h.level})).Handle(ctx, r); err != nil {
		return err
	}
	return h.write(r.Level, string(plain.JSON([]byte(b.String()))))
}

func (h jsonHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := h.with
	h.with = func(to slog.Handler) slog.Handler { return with(to).WithAttrs(attrs) }
	return h
}

func (h jsonHandler) WithGroup(name string) slog.Handler {
	with := h.with
	h.with = func(to slog.Handler) slog.Handler { return with(to).WithGroup(name) }
	return h
}

// lineHandler writes a record as its message, followed by its attributes as
// key=value. Time and origin are what write adds.
type lineHandler struct {
	level  slog.Leveler
	write  func(level slog.Level, line string) error
	attrs  string // of WithAttrs
	groups string // of WithGroup, each followed by a dot
}

func (h *lineHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		h.append(&b, a)
		return true
	})
	return h.write(r.Level, b.String())
}

func (h *lineHandler) append(b *strings.Builder, a slog.Attr) {
	b.WriteString(" " + h.groups + a.Key + "=" + a.Value.Resolve().String())
}

func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := *h
	var b strings.Builder
	for _, a := range attrs {
		h.append(&b, a)
	}
	n.attrs += b.String()
	return &n
}

func (h *lineHandler) WithGroup(name string) slog.Handler {
	n := *h
	n.groups += name + "."
	return &n
}
