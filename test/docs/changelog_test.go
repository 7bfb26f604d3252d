package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestChangelog: each section is a version, the newest first and each once, and only
// the top one may be unreleased.
func TestChangelog(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	type version [3]int
	var newer version
	heading := regexp.MustCompile(`^v(\d+)\.(\d+)\.(\d+) \((unreleased|\d{4}-\d\d-\d\d)\)$`)
	sections := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(sections) == 0 {
		t.Fatal("CHANGELOG.md has no versions")
	}
	for k, s := range sections {
		m := heading.FindStringSubmatch(s[1])
		if m == nil {
			t.Errorf("%q is not vMAJOR.MINOR.PATCH (unreleased) or (YYYY-MM-DD)", s[1])
			continue
		}
		var v version
		if _, err := fmt.Sscan(m[1]+" "+m[2]+" "+m[3], &v[0], &v[1], &v[2]); err != nil {
			t.Fatal(err)
		}
		older := v[0] < newer[0] || v[0] == newer[0] && (v[1] < newer[1] || v[1] == newer[1] && v[2] < newer[2])
		if k > 0 && (!older || m[4] == "unreleased") {
			t.Errorf("%q is below a section that it should be above, or is not released", s[1])
		}
		newer = v
	}
}

// TestChangelogOnce: nothing stands there twice, as merges of branches that begin alike have it.
func TestChangelogOnce(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	const alike = 50 // characters by which entries are told apart
	seen := map[string]bool{}
	for _, entry := range strings.Split(string(text), "\n- ")[1:] {
		begins := entry[:min(alike, len(entry))]
		if seen[begins] {
			t.Errorf("%q … stands there twice", begins)
		}
		seen[begins] = true
	}
	if len(seen) == 0 {
		t.Error("no entries")
	}
}
