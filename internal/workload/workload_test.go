package workload

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// mostly is a size that takes no time.
var mostly = Size{FileMiB: 2, Files: 5, ListFiles: 7, TreeFiles: 30, Random: 5 * time.Millisecond}

func newRun(t *testing.T, size Size) *Run {
	t.Helper()
	return &Run{Place: Dir(t.TempDir()), Size: size, Scratch: t.TempDir(),
		Meter: ProcessMeter(os.Getpid(), func() (uint64, error) { return 7, nil })}
}

// TestEachAlone: a workload runs without those before it, and again.
func TestEachAlone(t *testing.T) {
	for _, w := range All() {
		t.Run(w.Name, func(t *testing.T) {
			r := newRun(t, mostly)
			for range 2 {
				if err := w.Prepare(t.Context(), r); err != nil {
					skip(t, err)
				}
				res, err := w.Measure(t.Context(), r)
				if err != nil {
					skip(t, err)
				}
				if res.Count <= 0 || res.Rate() <= 0 || w.Unit == "" {
					t.Errorf("%+v", res)
				}
				if n, ok := res.Per(RPCs); !ok || n != 0 {
					t.Errorf("%v calls an operation, %v", n, ok)
				}
				if n, ok := res.Per(CPU); !ok || n < 0 {
					t.Errorf("%v ns an operation, %v", n, ok)
				}
				if len(res.Latencies) > 0 && len(res.Latencies) != res.Count {
					t.Errorf("%d latencies of %d operations", len(res.Latencies), res.Count)
				}
			}
			if err := Clean(r.Place); err != nil {
				t.Fatal(err)
			}
			if left, err := os.ReadDir(string(r.Place.(Dir))); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

func skip(t *testing.T, err error) {
	t.Helper()
	if s := (*SkipError)(nil); errors.As(err, &s) {
		t.Skip(s)
	}
	t.Fatal(err)
}

// TestAllInOrder: what each finds from those before it is what it needs.
func TestAllInOrder(t *testing.T) {
	r := newRun(t, mostly)
	for _, w := range All() {
		err := w.Prepare(t.Context(), r)
		if err == nil {
			_, err = w.Measure(t.Context(), r)
		}
		if s := (*SkipError)(nil); err != nil && !errors.As(err, &s) {
			t.Errorf("%s: %v", w.Name, err)
		}
	}
	if err := Clean(r.Place); err != nil {
		t.Fatal(err)
	}
}

// TestWithoutTime: a limit that is over at once leaves a workload one operation.
func TestWithoutTime(t *testing.T) {
	size := mostly
	size.Limit, size.Random = 1, 1
	for _, w := range All() {
		r := newRun(t, size)
		err := w.Prepare(t.Context(), r)
		if err == nil {
			_, err = w.Measure(t.Context(), r)
		}
		if s := (*SkipError)(nil); err != nil && (!errors.As(err, &s) || *s == *errNothing) {
			t.Errorf("%s: %v", w.Name, err)
		}
	}
}

func TestEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, w := range All() {
		r := newRun(t, mostly)
		err := w.Prepare(ctx, r)
		if err == nil {
			_, err = w.Measure(ctx, r)
		}
		if s := (*SkipError)(nil); !errors.Is(err, context.Canceled) && !errors.As(err, &s) {
			t.Errorf("%s: %v", w.Name, err)
		}
	}
}

func TestDifferentFilesAreReplaced(t *testing.T) {
	r := newRun(t, mostly)
	for _, w := range Matching(regexp.MustCompile("^(rename|stat, cold)$")) {
		for range 2 {
			if err := w.Prepare(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			res, err := w.Measure(t.Context(), r)
			if err != nil || res.Count != mostly.Files {
				t.Fatalf("%s: %+v, %v", w.Name, res, err)
			}
		}
	}
}

// TestTreeIsOne: each directory of the tree stands before what is in it.
func TestTreeIsOne(t *testing.T) {
	for _, n := range []int{1, 30, 1000} {
		dirs, files := map[string]bool{".": true}, 0
		for _, e := range nodes(n) {
			if up := filepath.Dir(e.name); !dirs[up] || dirs[e.name] {
				t.Fatalf("%+v is not below %s, or there already", e, up)
			}
			if e.dir {
				dirs[e.name] = true
			} else {
				files++
			}
			if e.size < 0 || e.size > len(packed()) {
				t.Fatalf("%+v", e)
			}
		}
		if files != n {
			t.Errorf("%d files of %d", files, n)
		}
	}
}
