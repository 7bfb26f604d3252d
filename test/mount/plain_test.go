package mount

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// TestPlainOutput: the user who mounts chooses its words. Every command that prints them,
// root too, prints no orders to a terminal.
func TestPlainOutput(t *testing.T) {
	const evil = "evil\x1b]0;owned\x07\u009b2J\u202eend"
	s := startServer(t, serverOptions{mode: 0o1777})
	if err := os.Mkdir(filepath.Join(s.export, evil), 0o755); err != nil {
		t.Fatal(err)
	}
	wrapper := asUser(t)
	source := s.source() + "/" + evil
	m := Mount(t, source, Options{Words: s.words("rdma", ""), Wrapper: wrapper, Dir: userDir(t)})
	for _, args := range [][]string{
		{"status", m.Dir}, {"stats", m.Dir}, {"status", "--json", m.Dir}, {"stats", "--json", m.Dir},
		{"mount", source + "none", m.Dir, "-o", s.words("rdma", "")}, {"mount", source, "/nonexistent" + evil},
		{"status", "/nonexistent" + evil}, {"umount", "/nonexistent" + evil}, {evil},
		{"doctor", source + "none", "-o", s.words("tcp", "")},
	} {
		r := Command(t, nil, args...)
		said := r.Stdout + r.Stderr
		if !strings.Contains(said, "evil") {
			t.Errorf("%q: says nothing of it: %q", args, said)
		}
		if at := strings.IndexFunc(said, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }); at >= 0 {
			t.Errorf("%q: %q", args, said[at:])
		}
	}
}
