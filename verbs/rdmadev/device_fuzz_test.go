package rdmadev

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/verbs/rdmadev/rdmadevtest"
)

// FuzzDevice: attributes, port numbers and GID indices hold what a driver
// wrote. Nothing of it panics, or reaches a terminal as a control character.
func FuzzDevice(f *testing.F) {
	f.Add("1: CA", "4: ACTIVE", "fe80:0000:0000:0000:5054:00ff:fe12:3456", "RoCE v2", "1", "0")
	f.Add("9", "\x1b[2J", "not a gid", "\u009b", "-1", "99999999999999999999")
	f.Add("", ":", "::ffff:10.0.0.1", strings.Repeat("x", 5000), "01", "+1")
	f.Fuzz(func(t *testing.T, kind, state, gid, gidType, port, index string) {
		for _, name := range []string{port, index} {
			if name == "" || len(name) > 200 || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
				return
			}
		}
		root := t.TempDir()
		plant := func(text string, parts ...string) {
			path := filepath.Join(append([]string{root, "sys/class/infiniband/x0"}, parts...)...)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Skip(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Skip(err)
			}
		}
		plant(kind, "node_type")
		plant(state, "ports", port, "state")
		plant(gid, "ports", port, "gids", index)
		plant(gidType, "ports", port, "gid_attrs/types", index)
		tr := &Tree{Sys: filepath.Join(root, "sys"), Dev: filepath.Join(root, "dev"), Map: rdmadevtest.Map{}}
		found := tr.Devices()
		if len(found) != 1 {
			t.Fatalf("%d devices", len(found))
		}
		texts := []string{found[0].Kind}
		for _, p := range found[0].Ports {
			texts = append(texts, p.State)
			for _, g := range p.GIDs {
				texts = append(texts, g.Type, g.Netdev)
			}
		}
		for _, s := range texts {
			if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) || len(s) > maxAttr {
				t.Errorf("%q is shown", s)
			}
		}
	})
}
