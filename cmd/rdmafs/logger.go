package main

import (
	"context"
	"log"
	"log/slog"
	"log/syslog"
	"os"
	"strings"

	"github.com/rdmafs/rdmafs/internal/plain"
)

// newLogger logs to standard error in the foreground, to syslog otherwise, with
// the level as its severity. Without a syslog the messages are dropped: nobody
// is there to read them. Each is one plain line, even if it quotes a server.
// Debug messages are for debug only.
func newLogger(foreground, debug bool, dir string) *slog.Logger {
	level := slog.LevelInfo
	if debug {
		level = slog.LevelDebug
	}
	if foreground {
		log.SetOutput(plain.Lines(os.Stderr)) // the requests that -d shows
		l := log.New(plain.Lines(os.Stderr), "rdmafs: "+dir+": ", log.LstdFlags|log.Lmsgprefix)
		return slog.New(&lineHandler{level: level, write: func(_ slog.Level, line string) error {
			return l.Output(0, line)
		}})
	}
	s, err := syslog.New(syslog.LOG_DAEMON|syslog.LOG_NOTICE, "rdmafs")
	if err != nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(&lineHandler{level: level, write: func(at slog.Level, line string) error {
		return severity(s, at)(plain.Text(dir + ": " + line))
	}})
}

// severity is the function that writes to syslog with the severity of a level.
func severity(s *syslog.Writer, at slog.Level) func(string) error {
	switch {
	case at >= slog.LevelError:
		return s.Err
	case at >= slog.LevelWarn:
		return s.Warning
	case at >= slog.LevelInfo:
		return s.Notice
	}
	return s.Debug
}

// lineHandler writes a record as its message, followed by its attributes as
// key=value. Time and origin are what write adds.
type lineHandler struct {
	level  slog.Level
	write  func(level slog.Level, line string) error
	attrs  string // of WithAttrs
	groups string // of WithGroup, each followed by a dot
}

func (h *lineHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

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
