package mount

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCreateFindsAnothers: a name that was free when the kernel looked, and that
// another has taken since, is opened with open(2)'s rules for what is there: who
// may not write gets EACCES and cuts nothing, links are followed, a directory is
// none to write to.
func TestCreateFindsAnothers(t *testing.T) {
	s := startServer(t, serverOptions{mode: 0o1777})
	w := asUser(t)
	m := Mount(t, s.source(), Options{Words: s.words("rdma", ""), Wrapper: w, Dir: userDir(t)})
	file := func(mode os.FileMode) func(name string) error {
		return func(name string) error {
			if err := os.WriteFile(name, []byte("theirs"), 0o600); err != nil {
				return err
			}
			return os.Chmod(name, mode)
		}
	}
	for _, c := range []struct {
		name, script string
		plant        func(name string) error
		says         string // an error, or nothing
		left         string // in the file, or nothing if it is none
	}{
		{"append", `exec 3>>"$0"`, file(0o444), "ermission denied", "theirs"},
		{"cut", `exec 3>"$0"`, file(0o444), "ermission denied", "theirs"},
		{"append-mine", `echo mine >>"$0"`, file(0o666), "", "theirsmine\n"},
		{"cut-mine", `echo mine >"$0"`, file(0o666), "", "mine\n"},
		{"exclusive", `set -C; exec 3>"$0"`, file(0o666), "exist", "theirs"},
		{"link", `echo mine >>"$0"`, func(name string) error {
			if err := file(0o666)(name + "-target"); err != nil {
				return err
			}
			return os.Symlink(filepath.Base(name)+"-target", name)
		}, "", "theirsmine\n"},
		{"directory", `exec 3>>"$0"`, func(name string) error { return os.Mkdir(name, 0o777) }, "irectory", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := command(w, "sh", "-c", `test -e "$0" && exit 9; echo free; read go; `+c.script, filepath.Join(m.Dir, c.name))
			cmd.Env = append(os.Environ(), "LC_ALL=C")
			var said strings.Builder
			cmd.Stderr = &said
			in := startUntil(t, cmd, "free")
			there := filepath.Join(s.export, c.name)
			if err := c.plant(there); err != nil {
				t.Fatal(err)
			}
			in.Close()
			err := cmd.Wait()
			if (err == nil) != (c.says == "") || !strings.Contains(said.String(), c.says) {
				t.Errorf("ended with %v and said %q, want %q", err, said.String(), c.says)
			}
			if c.left == "" {
				return
			}
			if b, err := os.ReadFile(there); err != nil || string(b) != c.left {
				t.Errorf("the file holds %q, %v, want %q", b, err, c.left)
			}
		})
	}
}
