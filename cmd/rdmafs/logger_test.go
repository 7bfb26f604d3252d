package main

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
)

func TestLogLineIsMessageAndAttributes(t *testing.T) {
	var got []string
	h := &lineHandler{level: slog.LevelInfo, write: func(at slog.Level, line string) error {
		got = append(got, fmt.Sprint(at, " ", line))
		return nil
	}}
	l := slog.New(h)
	l.Info("server srv OK")
	l.Debug("not shown")
	l.With("link", 1).WithGroup("peer").Warn("connection lost", "err", fmt.Errorf("cut off"))
	l.Error("gone")
	want := []string{"INFO server srv OK", "WARN connection lost link=1 peer.err=cut off", "ERROR gone"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
