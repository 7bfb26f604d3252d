// Package testlog makes loggers for tests. It keeps no state and starts no
// goroutine.
package testlog

import (
	"context"
	"log/slog"
	"testing"
)

// New logs to the log of a test, with levels.
func New(t testing.TB) *slog.Logger {
	return slog.New(handler{write: func(l slog.Level, line string) { t.Log(l, line) }})
}

// To calls write, in the goroutine that logs, with each record's message,
// followed by its attributes as key=value.
func To(write func(line string)) *slog.Logger {
	return slog.New(handler{write: func(_ slog.Level, line string) { write(line) }})
}

// handler passes every level on. It leaves out the names of groups.
type handler struct {
	write func(level slog.Level, line string)
	attrs string // of WithAttrs
}

func (h handler) Enabled(context.Context, slog.Level) bool { return true }

func (h handler) Handle(_ context.Context, r slog.Record) error {
	line := r.Message + h.attrs
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	h.write(r.Level, line)
	return nil
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		h.attrs += " " + a.String()
	}
	return h
}

func (h handler) WithGroup(string) slog.Handler { return h }
