package mount

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/nfsd"
)

// TestSoftReval: with softreval and a server that has fallen silent, what was seen of a path can be walked and
// looked at, though nothing is fresh (actimeo=0); what needs the server waits, or fails on a soft mount. Without
// softreval everything does. When the server speaks again, what it has is seen.
func TestSoftReval(t *testing.T) {
	for _, c := range []struct {
		words     string
		soft, all bool
	}{
		{words: "proto=tcp"},
		{words: "proto=rdma", all: true},
		{words: "proto=tcp,soft", soft: true},
		{words: "proto=tcp,vers=4.2", all: true},
		{words: "proto=rdma,vers=4.1", all: true},
	} {
		t.Run(strings.ReplaceAll(c.words, ",", " "), func(t *testing.T) {
			if c.all {
				needAll(t)
			}
			softReval(t, c.words, c.soft)
		})
	}
}

func softReval(t *testing.T, words string, soft bool) {
	s := startMuteOf(t, serverOptions{versions: nfsd.V3 | nfsd.V41 | nfsd.V42}, true)
	at := func(dir, name string) string { return filepath.Join(dir, "sub", name) }
	if err := os.Mkdir(at(s.export, ""), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at(s.export, "f"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	proto, rest, _ := strings.Cut(strings.TrimPrefix(words, "proto="), ",")
	m := s.mount(t, proto, strings.TrimPrefix(rest+",softreval,timeo=2,retrans=0,actimeo=0,nolock,logfile="+log, ","))
	var st unix.Stat_t
	if err := unix.Stat(at(m.Dir, "f"), &st); err != nil || st.Size != 3 {
		t.Fatalf("%d bytes, %v", st.Size, err)
	}
	if err := unix.Access(at(m.Dir, "f"), unix.R_OK); err != nil {
		t.Fatal(err)
	}

	s.silent.Store(true)
	if err := unix.Stat(at(m.Dir, "f"), &st); err != nil || st.Size != 3 {
		t.Errorf("stat: %d bytes, %v", st.Size, err)
	}
	if err := unix.Access(at(m.Dir, "f"), unix.R_OK); err != nil {
		t.Errorf("access: %v", err)
	}
	waiting := map[string]func() error{
		"a name that was not seen": func() error { return unix.Lstat(at(m.Dir, "g"), new(unix.Stat_t)) },
		"reading": func() error {
			_, err := os.ReadFile(at(m.Dir, "f"))
			return err
		},
		"a change": func() error { return os.Mkdir(at(m.Dir, "d"), 0o755) },
	}
	type result struct {
		what string
		err  error
	}
	results := make(chan result, len(waiting))
	for what, try := range waiting {
		go func() { results <- result{what, try()} }()
	}
	if !soft {
		// By the time that the path has been walked again, none of them has ended.
		if err := unix.Stat(at(m.Dir, "f"), &st); err != nil {
			t.Errorf("stat: %v", err)
		}
		if n := len(results); n != 0 {
			t.Errorf("%d of %d operations did not wait for the server", n, len(waiting))
		}
		if err := os.WriteFile(at(s.export, "f"), []byte("newer"), 0o644); err != nil {
			t.Fatal(err)
		}
		s.silent.Store(false)
	}
	for range waiting {
		switch r := <-results; {
		case soft && !errors.Is(r.err, syscall.EIO):
			t.Errorf("%s on a soft mount: %v, want EIO", r.what, r.err)
		case !soft && r.err != nil && !errors.Is(r.err, syscall.ENOENT):
			t.Errorf("%s, once the server speaks: %v", r.what, r.err)
		}
	}
	if soft {
		s.silent.Store(false)
		return
	}
	if err := unix.Stat(at(m.Dir, "f"), &st); err != nil || st.Size != 5 {
		t.Errorf("once the server speaks: %d bytes, %v", st.Size, err)
	}
	b, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(b), "not responding, still trying") || !strings.Contains(string(b), " OK") {
		t.Errorf("the log: %v in %q", err, b)
	}
}
