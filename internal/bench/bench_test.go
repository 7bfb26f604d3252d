package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/internal/workload"
)

// ground is a directory.
type ground struct {
	place workload.Place
	room  uint64
	fresh int
	err   error
	spent float64
}

func (g *ground) Fresh(context.Context) (workload.Place, error) { g.fresh++; return g.place, g.err }
func (g *ground) Used() Used                                    { return Used{Target: "x", Way: Library, Cold: true} }
func (g *ground) Room() (uint64, bool)                          { return g.room, g.room > 0 }

// Meter has the client spend the same each time.
func (g *ground) Meter() workload.Meter {
	return func(bool) (workload.Spent, error) {
		g.spent += 1000
		return workload.Spent{workload.RPCs: g.spent, workload.CPU: g.spent, workload.Switches: g.spent}, nil
	}
}

func newConfig(t *testing.T, names string) Config {
	return Config{Workloads: workload.Matching(regexp.MustCompile(names)), Time: time.Second, Scratch: t.TempDir(),
		Size: workload.Size{FileMiB: 1, Files: 3, ListFiles: 4, TreeFiles: 5}, Progress: func(string) {}}
}

// TestReport: every workload has a row, in JSON and printed.
func TestReport(t *testing.T) {
	g := &ground{place: workload.Dir(t.TempDir())}
	cfg := newConfig(t, ".")
	r, err := Run(t.Context(), g, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if want := 1 + len(cfg.Workloads); g.fresh != want {
		t.Errorf("%d times afresh, want %d", g.fresh, want)
	}
	var text, js bytes.Buffer
	if err := errors.Join(Print(&text, r), plain.WriteJSON(&js, r)); err != nil {
		t.Fatal(err)
	}
	for i, w := range cfg.Workloads {
		s := r.Results[i]
		if s.Workload != w.Name || s.Skipped == "" && (s.Rate <= 0 || s.Calls == nil || *s.Calls <= 0 || s.CPU == nil || s.Switches == nil) {
			t.Errorf("%s: %+v", w.Name, s)
		}
		if !strings.Contains(text.String(), "\n"+w.Name+"  ") {
			t.Errorf("%s is not in:\n%s", w.Name, text.String())
		}
	}
	snake := regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`)
	for _, k := range regexp.MustCompile(`"([^"]*)":`).FindAllStringSubmatch(js.String(), -1) {
		if !snake.MatchString(k[1]) {
			t.Errorf("key %q", k[1])
		}
	}
}

// full is a place on a full disk.
type full struct{ workload.Dir }

func (f full) OpenFile(name string, flag int, perm fs.FileMode) (workload.File, error) {
	file, err := f.Dir.OpenFile(name, flag, perm)
	return fullFile{file}, err
}

type fullFile struct{ workload.File }

func (fullFile) WriteAt([]byte, int64) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "large", Err: syscall.ENOSPC}
}

func TestNoSpace(t *testing.T) {
	for name, g := range map[string]*ground{
		"before": {place: workload.Dir(t.TempDir()), room: 100},
		"within": {place: full{workload.Dir(t.TempDir())}},
	} {
		_, err := Run(t.Context(), g, newConfig(t, "^sequential write and fsync$"))
		if e := (*SpaceError)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), "--size") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFails(t *testing.T) {
	boom := errors.New("boom")
	if _, err := Run(t.Context(), &ground{err: boom}, newConfig(t, "create")); !errors.Is(err, boom) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, &ground{place: workload.Dir(t.TempDir())}, newConfig(t, "create")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestHints(t *testing.T) {
	some := func(v float64) *float64 { return &v }
	stat := Result{Workload: "stat, cold", Unit: "files/s", Median: some(100), Calls: some(1)}
	for _, c := range []struct {
		r    Result
		want string
	}{
		{stat, "takes 100 µs (median of stat, cold)"},
		{Result{Workload: "create", Median: some(320), Calls: some(3)}, "3.0 calls, one after the other"},
		{Result{Workload: "create", Median: some(1000), Calls: some(3)}, "30 % of its time"},
		{Result{Workload: "untar", Median: some(200), Calls: some(5)}, "while nobody waits"},
		{Result{Workload: "sequential read, cold", Unit: "MiB/s", CPU: some(1000), Count: 2000, Seconds: 1}, "2.0 processors"},
	} {
		r := &Report{Used: Used{Cold: true}, Results: []Result{stat, c.r}}
		if all := strings.Join(hints(r), "\n"); !strings.Contains(all, c.want) {
			t.Errorf("%+v: %q, want %q", c.r, all, c.want)
		}
	}
	if all := fmt.Sprint(hints(&Report{Results: []Result{{Workload: "create"}}})); !strings.Contains(all, "was not") {
		t.Error(all)
	}
	if all := hints(&Report{Used: Used{Cold: true}, Results: []Result{{Workload: "create", Skipped: "x"}}}); len(all) > 0 {
		t.Errorf("%q", all)
	}
}

// TestPlain: what a mount table or a server says of itself is printed as text.
func TestPlain(t *testing.T) {
	const evil = "\x1b]0;owned\x07\r\n"
	r := &Report{Used: Used{Target: evil, Way: Directory, Type: evil, Source: evil, Transport: evil, Server: evil, Version: evil}}
	var b bytes.Buffer
	if err := Print(&b, r); err != nil {
		t.Fatal(err)
	}
	s, err := io.ReadAll(&b)
	if err != nil || bytes.ContainsAny(s, "\x1b\x07\r") {
		t.Errorf("%q, %v", s, err)
	}
}
