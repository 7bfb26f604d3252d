package mount

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// requests is a mount in the foreground that logs, and counts, every FUSE request.
type requests struct {
	dir string

	mu    sync.Mutex
	seen  sync.Cond
	lines []string // since take
	marks int
	over  bool // the daemon has ended
}

// counts is how many requests there were, by their names in the FUSE protocol.
type counts map[string]int

// unanswered are the requests whose sender does not wait for the reply, so that they
// come whenever the kernel gets round to them.
var unanswered = []string{"FORGET", "BATCH_FORGET", "RELEASE", "RELEASEDIR", "INTERRUPT"}

var requestLine = regexp.MustCompile(` rx \d+: ([A-Z0-9_]+) `)

// countRequests mounts source and unmounts it when the test ends.
func countRequests(t testing.TB, source, words string) *requests {
	t.Helper()
	r := &requests{dir: t.TempDir()}
	r.seen.L = &r.mu
	cmd := exec.Command(Binary(t), "mount", "-f", "-d", source, r.dir, "-o", words)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go r.runRead(log)
	t.Cleanup(func() {
		if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
			t.Error(err)
		}
		r.await(func() bool { return r.over })
		if err := cmd.Wait(); err != nil {
			t.Errorf("the daemon: %v", err)
		}
	})
	r.await(func() bool { return r.over || r.logged("mounted ") })
	if r.over {
		t.Fatalf("not mounted: %q", r.lines)
	}
	r.take(t)
	return r
}

// runRead reads the log to its end.
func (r *requests) runRead(log io.Reader) {
	s := bufio.NewScanner(log)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		r.mu.Lock()
		r.lines = append(r.lines, s.Text())
		r.seen.Broadcast()
		r.mu.Unlock()
	}
	r.mu.Lock()
	r.over = true
	r.seen.Broadcast()
	r.mu.Unlock()
}

// await waits until what holds of the log.
func (r *requests) await(what func() bool) {
	late := time.AfterFunc(time.Minute, func() { panic("the daemon's log is late") })
	defer late.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for !what() {
		r.seen.Wait()
	}
}

// logged reports whether the log has a line with text; mu is held.
func (r *requests) logged(text string) bool {
	for _, l := range r.lines {
		if strings.Contains(l, text) {
			return true
		}
	}
	return false
}

// take returns the requests since it was called last, but for those whose sender does
// not wait for the reply.
func (r *requests) take(t testing.TB) counts {
	t.Helper()
	// A name that nobody has looked up before is asked for, after everything else.
	r.marks++
	mark := fmt.Sprint("mark-", r.marks)
	if _, err := os.Lstat(filepath.Join(r.dir, mark)); !os.IsNotExist(err) {
		t.Fatal(err)
	}
	r.await(func() bool { return r.over || r.logged(`"`+mark+`"`) })
	r.mu.Lock()
	defer r.mu.Unlock()
	n := counts{}
	for _, l := range r.lines {
		if m := requestLine.FindStringSubmatch(l); m != nil && !strings.Contains(l, `"mark-`) {
			n[m[1]]++
		}
	}
	for _, name := range unanswered {
		delete(n, name)
	}
	r.lines = nil
	return n
}

// want takes the requests that were made and fails the test if they are others.
func (r *requests) want(t testing.TB, what string, want counts) {
	t.Helper()
	if got := r.take(t); !maps.Equal(got, want) {
		t.Errorf("%s: FUSE requests %v, want %v", what, got, want)
	}
}
