package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the module's directory.
const root = "../.."

// TestGlossary: the words of CONTRIBUTING.md are few, in order, and each once.
func TestGlossary(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n## Words\n")
	if !found {
		t.Fatal("CONTRIBUTING.md has no words")
	}
	section, _, _ := strings.Cut(rest, "\n## ")
	var words []string
	for _, m := range regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \|$`).FindAllStringSubmatch(section, -1) {
		if m[1] != "word" {
			words = append(words, m[1])
		}
	}
	const most = 30
	if n := len(words); n == 0 || n > most {
		t.Errorf("%d words, of which more than %d nobody learns", n, most)
	}
	sorted := func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }
	if !slices.IsSortedFunc(words, sorted) {
		t.Error("the words are not in order")
	}
	if n := len(slices.Compact(slices.Clone(words))); n != len(words) {
		t.Error("a word stands there twice")
	}
}
