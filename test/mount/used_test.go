package mount

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTopBy: top tells who writes what: the process by its number and name, the file by its path.
func TestTopBy(t *testing.T) {
	s := startServer(t, serverOptions{})
	m := s.mount(t, "tcp", "")
	file := filepath.Join(m.Dir, "some file")
	for _, c := range []struct{ by, want string }{
		{"file", `(?m)[1-9][0-9.]* +\d+ +.*some file.* ` + regexp.QuoteMeta(m.Dir) + `$`},
		{"process", `(?m)[1-9][0-9.]* +\d+ +\d+ +dd +` + regexp.QuoteMeta(m.Dir) + `$`},
	} {
		top := exec.Command(Binary(t), "top", "--batch", "--by", c.by, "--interval", "0.2", "-n", "6")
		var out strings.Builder
		top.Stdout = &out
		if err := top.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- top.Wait() }()
		for done := false; !done; {
			select {
			case err := <-ended:
				done = true
				if err != nil {
					t.Error(err)
				}
			default:
				f, err := exec.Command("dd", "if=/dev/zero", "of="+file, "bs=64k", "count=4", "conv=notrunc", "status=none").CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %s", err, f)
				}
			}
		}
		if !regexp.MustCompile(c.want).MatchString(out.String()) {
			t.Errorf("by %s: %s", c.by, out.String())
		}
	}
	checkFailure(t, Command(t, nil, "top", "--by", "user"), usage, "--by wants")
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
