package mount

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a mount may take over what a hostile server made hard,
// or be back to normal once that behaves. It is far beyond what is needed.
const patience = 90 * time.Second

// maxDaemon bounds a daemon's resident memory, in bytes: it mounts with the
// default buffers.
const maxDaemon = 512 << 20

// TestHostileReplies spoils every so-manyth reply in one way after another. What
// the mount does then may fail, but must end, and what it reads must be right;
// once the server behaves everything works again.
func TestHostileReplies(t *testing.T) {
	for _, c := range []struct {
		name       string
		do         harm
		every, ops int // fewer where each costs a timeout
	}{
		{"truncated", truncated, 3, 50},
		{"header flipped", headerFlipped, 3, 50},
		{"RPC header flipped", rpcFlipped, 3, 120},
		{"other XID", otherXID, 23, 40},
		{"duplicated", duplicated, 3, 120},
		{"swallowed", swallowed, 23, 40},
		{"lengths lied about", lied, 3, 120},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, e := startEvil(t)
			m := s.mount(t, "rdma", "soft,timeo=2,retrans=2,noac,nconnect=2")
			want := fill(t, s.export)
			e.arm(c.every, c.do)
			r := rand.New(rand.NewPCG(1, 2))
			failed := 0
			within(t, func() {
				for range c.ops {
					if err := randomOp(t, r, m.Dir, want); err != nil {
						failed++
					}
				}
			})
			done := e.arm(1, nil)
			if done == 0 {
				t.Error("no reply was spoilt")
			}
			t.Logf("%d replies spoilt, %d of %d operations failed", done, failed, c.ops)
			recovers(t, m)
			for range 20 {
				if err := randomOp(t, r, m.Dir, want); err != nil {
					t.Errorf("after the server behaves again: %v", err)
				}
			}
			Exercise(t, m.Dir)
		})
	}
}

// fill makes files of many sizes and returns their contents by name.
func fill(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	r := rand.NewChaCha8([32]byte{9})
	want := map[string][]byte{}
	for i, n := range []int{0, 1, 700, 4000, 5000, 70_001, 1 << 20, 1<<21 + 3} {
		name := fmt.Sprint("file", i)
		b := make([]byte, n)
		r.Read(b)
		want[name] = b
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return want
}

// randomOp does one thing on the mount. Failures are the caller's to judge, but
// wrong data is not.
func randomOp(t *testing.T, r *rand.Rand, dir string, want map[string][]byte) error {
	name := fmt.Sprint("file", r.IntN(len(want)))
	at := filepath.Join(dir, name)
	switch r.IntN(5) {
	case 0:
		_, err := os.Stat(at)
		return err
	case 1:
		_, err := os.ReadDir(dir)
		return err
	case 2:
		_, err := os.Stat(at + "-none")
		if err == nil {
			t.Error("a file that is not there is")
		}
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return err
	case 3:
		own := filepath.Join(dir, fmt.Sprint("own", r.IntN(1000)))
		b := want[name]
		err := os.WriteFile(own, b, 0o600)
		if err == nil {
			err = readBack(t, own, b)
		}
		return errors.Join(err, ignoreMissing(os.Remove(own)))
	default:
		return readBack(t, at, want[name])
	}
}

func readBack(t *testing.T, name string, want []byte) error {
	if err := DropCache(name); err != nil {
		return err
	}
	got, err := os.ReadFile(name)
	if err == nil && !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes of %d, or other content, without an error", name, len(got), len(want))
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// within fails the test, and ends it, when f does not return.
func within(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go runUntil(done, f)
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("the mount hangs for %v", patience)
	}
}

func runUntil(done chan<- struct{}, f func()) {
	defer close(done)
	f()
}

// recovers waits until the mount answers, and checks its daemon.
func recovers(t *testing.T, m *Mounted) {
	t.Helper()
	within(t, func() {
		for {
			_, err := os.ReadDir(m.Dir)
			if err == nil {
				return
			}
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("the mount fails with %v", err)
				return
			}
		}
	})
	if rss := m.resident(t); rss > maxDaemon {
		t.Errorf("the daemon holds %d MiB", rss>>20)
	}
}

// resident is how much memory the mount's daemon holds, in bytes. A daemon that
// is gone fails the test.
func (m *Mounted) resident(t *testing.T) int {
	t.Helper()
	r := Command(t, nil, "stats", "--json", m.Dir)
	var report struct{ PID int }
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil || r.Code != 0 {
		t.Fatalf("the daemon does not answer: %s %v", r.Stderr, err)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", report.PID))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), "VmRSS:")
	kb, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}
