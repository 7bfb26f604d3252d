package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"unicode"
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

// TestJSONLines: each record is an object on one plain line, with the mount, whatever it quotes; the level can be changed.
func TestJSONLines(t *testing.T) {
	var got []string
	l := &mountLog{level: new(slog.LevelVar)}
	h := l.json(func(at slog.Level, line string) error {
		got = append(got, line)
		return nil
	}, "/m\u202e")
	log := slog.New(h)
	log.With("link", 1).WithGroup("peer").Warn("lost \x1b[2J\nx", "why", "\u009b")
	log.Debug("not shown")
	if err := l.set("debug"); err != nil {
		t.Fatal(err)
	}
	log.Debug("shown")
	if err := l.set("loud"); err == nil {
		t.Error("a level that there is not")
	}
	if len(got) != 2 {
		t.Fatalf("%q", got)
	}
	var v struct {
		Level, Msg, Mount string
		Link              int
		Peer              struct{ Why string }
	}
	if err := json.Unmarshal([]byte(got[0]), &v); err != nil || v.Level != "WARN" || v.Msg != "lost \x1b[2J\nx" || v.Mount != "/m\u202e" || v.Link != 1 || v.Peer.Why != "\u009b" {
		t.Errorf("%+v, %v of %s", v, err, got[0])
	}
	if line := strings.TrimSuffix(got[0], "\n"); strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		t.Errorf("%q", line)
	}
}
