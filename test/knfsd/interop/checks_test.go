//go:build knfsd || guest

package interop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/mount"
	"github.com/rdmafs/rdmafs/test/rights"
	"github.com/rdmafs/rdmafs/transport"
)

func TestMain(m *testing.M) {
	rights.Worker()
	asWriter()
	mount.Isolate()
	code := m.Run()
	mount.RemoveBinary()
	os.Exit(code)
}

// addressEnv has the server's address for the tests in the guest: adapters are not
// on loopback.
const addressEnv = "RDMAFS_INTEROP_ADDR"

// documentEnv names the document, in the guest, whose table says what clients see.
const documentEnv = "RDMAFS_INTEROP_DOCUMENT"

// machine is where the Linux server runs: the guest as seen from the host, or
// from within.
type machine interface {
	// Check runs a shell command that is to succeed.
	Check(ctx context.Context, command string) (output string, err error)
	RestartServer(ctx context.Context) error
}

// guest runs a command in the guest that is to succeed.
func guest(t testing.TB, g machine, command string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	out, err := g.Check(ctx, command)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// rows are the plan rows that a mount of some kind must have taken.
type rows struct {
	inline, read, zero, write, reply bool
	// padded calls are answered with ERR_CHUNK here, and go out once more unpadded.
	padded bool
}

func (r rows) check(t *testing.T, s transport.Stats) {
	t.Helper()
	for _, c := range []struct {
		name string
		want bool
		got  uint64
	}{
		{"inline calls", r.inline, s.InlineCalls},
		{"read chunks", r.read, s.ReadChunks},
		{"Position-Zero calls", r.zero, s.PositionZero},
		{"write chunks", r.write, s.WriteChunks},
		{"reply chunks", r.reply, s.ReplyChunks},
		{"reply chunks used", r.reply, s.LongReplies},
		{"padded calls", r.padded, s.PaddedCalls},
	} {
		if c.want != (c.got > 0) {
			t.Errorf("%s: %d, want some: %v", c.name, c.got, c.want)
		}
	}
	if s.BadReplies > 0 || s.BadXIDs > 0 {
		t.Errorf("%d bad replies, %d unknown XIDs", s.BadReplies, s.BadXIDs)
	}
	t.Logf("%d calls: %d inline, %d with read chunk, %d Position-Zero; %d write chunks, %d reply chunks, %d used; keys invalidated by the server %d, here %d",
		s.Calls, s.InlineCalls, s.ReadChunks, s.PositionZero, s.WriteChunks, s.ReplyChunks, s.LongReplies, s.RemoteInvalidations, s.LocalInvalidations)
}

// way is one way to mount the server's /export.
type way struct {
	name, proto, words string
	rows               rows
}

// everyday are the words of a mount as people have it: for all users, and with the version of NFS and the attribute
// timeouts that are the default. Others see what the guest changes behind their back sooner.
const everyday = "allow_other,vers=auto"

// run mounts the server in this way, adding the words that find it, and puts
// the mount through every check. The wrapper is a command that runs rdmafs, if any.
func (w way) run(t *testing.T, g machine, source string, find func(proto string) string, wrapper ...string) transport.Stats {
	sub := "/export/" + w.name
	guest(t, g, "mkdir "+sub)
	words := find(w.proto)
	if w.words == everyday && os.Geteuid() != 0 {
		w.words = "vers=auto" // fuse.conf may not let an ordinary user do that
	} else if w.words != everyday {
		words += ",actimeo=1"
	}
	words = strings.TrimSuffix(words+","+w.words, ",")
	m := mount.Mount(t, source, mount.Options{Words: words, Wrapper: wrapper})
	endWithGuest(t, g, m)
	dir := filepath.Join(m.Dir, w.name)
	t.Run("tree", func(t *testing.T) { tree(t, g, dir, sub) })
	t.Run("directory", func(t *testing.T) { bigDirectory(t, g, dir, sub) })
	t.Run("large file", func(t *testing.T) { largeFile(t, g, dir, sub) })
	t.Run("read what the guest wrote", func(t *testing.T) { guestWrote(t, g, dir, sub) })
	t.Run("symlink", func(t *testing.T) { longSymlink(t, g, dir, sub) })
	t.Run("restart", func(t *testing.T) { restart(t, g, m, dir, sub) })
	stats := m.Stats(t)
	if w.proto != "tcp" {
		w.rows.check(t, stats)
	}
	m.Umount(t)
	guest(t, g, "rm -rf "+sub)
	return stats
}

// endWithGuest unmounts m by force if the guest ends during the test. Without that, a
// system call on m would wait forever for the server.
func endWithGuest(t *testing.T, g machine, m *mount.Mounted) {
	t.Helper()
	umountWithGuest(t, g, func() []string { return []string{m.Dir} })
}

// umountWithGuest is endWithGuest for mounts that are not known yet.
func umountWithGuest(t *testing.T, g machine, dirs func() []string) {
	t.Helper()
	away, ok := g.(interface{ Gone() <-chan struct{} })
	if !ok {
		return // the test is in the guest
	}
	bin, joined := mount.Binary(t), make(chan struct{})
	runEnd := func() {
		defer close(joined)
		select {
		case <-t.Context().Done():
		case <-away.Gone():
			for _, dir := range dirs() {
				// The console, which a failed test shows, says more.
				_ = exec.Command(bin, "umount", "-f", dir).Run()
			}
		}
	}
	go runEnd()
	t.Cleanup(func() { <-joined })
}

func tree(t *testing.T, g machine, dir, sub string) {
	from := mount.SourceTree(t)
	mount.CopyTree(t, from, filepath.Join(dir, "tree"), nil)
	mount.SameTree(t, filepath.Join(dir, "tree"), from)
	sameInGuest(t, g, sub+"/tree", from)
}

// sameInGuest compares a tree in the guest with one here, by checksums made
// there.
func sameInGuest(t *testing.T, g machine, there, here string) {
	t.Helper()
	out := guest(t, g, "cd "+there+" && find . -type f | xargs sha256sum")
	got := make(map[string]string)
	for line := range strings.Lines(out) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		got[strings.TrimPrefix(name, "./")] = sum
	}
	files := 0
	for name, sum := range mount.Sums(t, here) {
		if st, err := os.Lstat(filepath.Join(here, name)); err != nil || !st.Mode().IsRegular() {
			continue
		}
		files++
		if want := fmt.Sprintf("%x", sum); got[name] != want {
			t.Errorf("%s: %s in the guest, %s here", name, got[name], want)
		}
	}
	if len(got) != files || files == 0 {
		t.Errorf("%d files in the guest, %d here", len(got), files)
	}
}

func bigDirectory(t *testing.T, g machine, dir, sub string) {
	const n = 5000
	guest(t, g, fmt.Sprintf("mkdir %s/big && cd %s/big && seq -f entry-%%05g %d | xargs touch", sub, sub, n))
	list, err := os.ReadDir(filepath.Join(dir, "big"))
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, e := range list {
		seen[e.Name()] = true
	}
	if len(list) != n || len(seen) != n {
		t.Errorf("%d entries listed, %d distinct, want %d", len(list), len(seen), n)
	}
	for i := 1; i <= n; i++ {
		if name := fmt.Sprintf("entry-%05d", i); !seen[name] {
			t.Fatalf("%s is missing", name)
		}
	}
}

func content(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}).Read(b)
	return b
}

func largeFile(t *testing.T, g machine, dir, sub string) {
	b := content(64 << 20)
	f, err := os.Create(filepath.Join(dir, "large"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	// Not closed yet: fsync alone must have brought it there.
	want := fmt.Sprintf("%x", sha256.Sum256(b))
	if got, _, _ := strings.Cut(guest(t, g, "sha256sum "+sub+"/large"), " "); got != want {
		t.Errorf("after fsync the guest reads %s, want %s", got, want)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func guestWrote(t *testing.T, g machine, dir, sub string) {
	out := guest(t, g, "head -c 20000001 /dev/urandom > "+sub+"/there && sha256sum "+sub+"/there")
	want, _, _ := strings.Cut(out, " ")
	b, err := os.ReadFile(filepath.Join(dir, "there"))
	if got := fmt.Sprintf("%x", sha256.Sum256(b)); err != nil || got != want {
		t.Errorf("read %d bytes with sum %s, want %s; %v", len(b), got, want, err)
	}
	// Close to open: rewritten in the guest, opened anew here.
	out = guest(t, g, "head -c 20000001 /dev/urandom > "+sub+"/there && sha256sum "+sub+"/there")
	want, _, _ = strings.Cut(out, " ")
	b, err = os.ReadFile(filepath.Join(dir, "there"))
	if got := fmt.Sprintf("%x", sha256.Sum256(b)); err != nil || got != want {
		t.Errorf("after a rewrite: read %d bytes with sum %s, want %s; %v", len(b), got, want, err)
	}
}

func longSymlink(t *testing.T, g machine, dir, sub string) {
	target := strings.Repeat("z", 4000)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if got, err := os.Readlink(link); err != nil || got != target {
		t.Errorf("read %d bytes back, %v", len(got), err)
	}
	if got := guest(t, g, "readlink "+sub+"/link"); got != target {
		t.Errorf("the guest reads a target of %d bytes", len(got))
	}
}

// restart restarts the server in the middle of a copy, which must complete.
func restart(t *testing.T, g machine, m *mount.Mounted, dir, sub string) {
	from := mount.SourceTree(t)
	before := m.Stats(t).Connects
	restarted := make(chan error, 1)
	started := false
	mount.CopyTree(t, from, filepath.Join(dir, "copy"), func(n int) {
		if n != 40 {
			return
		}
		started = true
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			restarted <- g.RestartServer(ctx)
		}()
	})
	if !started {
		t.Fatal("the copy was over before the restart")
	}
	if err := <-restarted; err != nil {
		t.Fatal(err)
	}
	// One more write after the restart, whichever came first.
	b := content(1 << 20)
	if err := os.WriteFile(filepath.Join(dir, "copy", "after"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "copy", "after")); err != nil || !bytes.Equal(got, b) {
		t.Errorf("after the restart: %d bytes, %v", len(got), err)
	}
	if err := os.Remove(filepath.Join(dir, "copy", "after")); err != nil {
		t.Error(err)
	}
	mount.SameTree(t, filepath.Join(dir, "copy"), from)
	sameInGuest(t, g, sub+"/copy", from)
	if after := m.Stats(t).Connects; after == before {
		t.Errorf("no connection was made anew: the restart went unnoticed")
	}
}
