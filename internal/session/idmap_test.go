package session

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rdmafs/rdmafs/test/testlog"
)

// TestReadIDMap: idmapd.conf(5) as Debian and others have it, commented out, with quotes, and damaged.
func TestReadIDMap(t *testing.T) {
	zero := func(p *uint32) bool { return p != nil && *p == 0 }
	for _, x := range []struct {
		text, domain string
		user, group  bool // user and group 0 stand for nobody
	}{
		{"", "", false, false},
		{"[General]\n\nVerbosity = 0\n# set your own domain here, if it differs from FQDN minus hostname\n# Domain = localdomain\n\n[Mapping]\n\nNobody-User = nosuchuser\nNobody-Group = nosuchgroup\n", "", false, false},
		{"[general]\ndomain=example.org\n[MAPPING]\nnobody-user=root\nNobody-Group = root ; a comment\n", "example.org", true, true},
		{"Domain = no.section\n[General]\nDomain = \"quoted.example\" # so\n[Mapping]\nDomain = other\n", "quoted.example", false, false},
		{"[General\nDomain = a\n[General]\nDomain\n=\n[]\n\x00", "a", false, false},
	} {
		path := filepath.Join(t.TempDir(), "idmapd.conf")
		if err := os.WriteFile(path, []byte(x.text), 0o644); err != nil {
			t.Fatal(err)
		}
		m := readIDMap(path, testlog.New(t))
		if m.Domain != x.domain || zero(m.NobodyUser) != x.user || zero(m.NobodyGroup) != x.group {
			t.Errorf("%q: %+v", x.text, m)
		}
	}
	if m := readIDMap(filepath.Join(t.TempDir(), "none"), testlog.New(t)); m.Domain != "" || m.NobodyUser != nil {
		t.Errorf("without a file: %+v", m)
	}
	if m := readIDMap(t.TempDir(), testlog.New(t)); m.Domain != "" {
		t.Errorf("of a directory: %+v", m)
	}
}
