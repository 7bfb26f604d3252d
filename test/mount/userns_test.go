package mount

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUserNamespace: root of a user namespace with a mount namespace of its own mounts,
// though the network and /run are those of the machine, which it may not use as
// root could. So do rootless containers.
func TestUserNamespace(t *testing.T) {
	wrapper := append(append([]string(nil), asUser(t)...), "unshare", "-Urm")
	if out, err := exec.Command(wrapper[0], append(wrapper[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("an ordinary user cannot make namespaces here: %v: %s", err, out)
	}
	s := startServer(t, serverOptions{mode: 0o1777})
	for _, c := range []struct{ name, proto, prepare string }{
		{"rdma", "rdma", ""},
		{"tcp", "tcp", ""},
		{"read-only run", "tcp", "mount -t tmpfs -o ro tmpfs /run"},
	} {
		t.Run(c.name, func(t *testing.T) {
			script := strings.Join([]string{"set -e", c.prepare,
				`"$1" mount "$2" "$3" -o "$4"`,
				`echo written >"$3/file"`,
				`[ "$(cat "$3/file")" = written ]`,
				`"$1" status "$3"`,
				`"$1" umount "$3"`,
				`[ -z "$(ls "$3")" ]`,
			}, "\n")
			run(t, wrapper, "sh", "-c", script, "sh", Binary(t), s.source(), userDir(t), s.words(c.proto, ""))
			path := filepath.Join(s.export, "file")
			if got, err := os.ReadFile(path); err != nil || string(got) != "written\n" {
				t.Errorf("the server has %q: %v", got, err)
			}
			if err := os.Remove(path); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestUserNamespaceAlone: without a mount namespace of its own nothing can be mounted,
// and the error says so.
func TestUserNamespaceAlone(t *testing.T) {
	wrapper := append(append([]string(nil), asUser(t)...), "unshare", "-Ur")
	if out, err := exec.Command(wrapper[0], append(wrapper[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("an ordinary user cannot make namespaces here: %v: %s", err, out)
	}
	s := startServer(t, serverOptions{mode: 0o1777})
	checkFailure(t, Command(t, wrapper, "mount", s.source(), userDir(t), "-o", s.words("tcp", "")), fail, "fusermount3", "unshare -Urm")
}
