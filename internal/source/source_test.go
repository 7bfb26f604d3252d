package source

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Source{
		"server:/export":          {"server:/export", "server", "/export"},
		"10.0.0.5:/":              {"10.0.0.5:/", "10.0.0.5", "/"},
		"[fd00::1]:/a b/c":        {"[fd00::1]:/a b/c", "fd00::1", "/a b/c"},
		"[fe80::1%eth0]:/x":       {"[fe80::1%eth0]:/x", "fe80::1%eth0", "/x"},
		"server.example.org:/a:b": {"server.example.org:/a:b", "server.example.org", "/a:b"},
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for text, hint := range map[string]string{
		"server":           "colon",
		"":                 "colon",
		":/export":         "server is missing",
		"server:export":    "absolute",
		"server:":          "absolute",
		"fd00::1:/export":  "[address]",
		"[fd00::1/export":  "[address]",
		"[10.0.0.1]:/e":    "no IPv6",
		"[server]:/export": "no IPv6",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%q: error %v does not say %q", text, err, hint)
		}
	}
}

func TestParseServer(t *testing.T) {
	for text, want := range map[string]Source{
		"server:/export": {"server:/export", "server", "/export"},
		"server":         {"server", "server", ""},
		"10.0.0.5":       {"10.0.0.5", "10.0.0.5", ""},
		"fd00::1":        {"fd00::1", "fd00::1", ""},
		"[fd00::1]":      {"[fd00::1]", "fd00::1", ""},
		"[fd00::1]:/x":   {"[fd00::1]:/x", "fd00::1", "/x"},
		"fe80::1%eth0":   {"fe80::1%eth0", "fe80::1%eth0", ""},
	} {
		if got, err := ParseServer(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "server:", "server:export", ":/x", "/mnt", "[server]", "[]", "[fd00::1"} {
		if got, err := ParseServer(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
