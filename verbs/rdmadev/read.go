package rdmadev

import (
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxAttr is what the kernel gives at most of one attribute.
const maxAttr = 4096

// read is the first line of an attribute, without control characters; "" when
// there is none.
func read(parts ...string) string {
	f, err := os.Open(filepath.Join(parts...))
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxAttr))
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == 0xfffd {
			return -1
		}
		return r
	}, line))
}

// list is the names in a directory, sorted; none when it cannot be read.
func list(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// afterColon takes the number off the kernel's "4: ACTIVE".
func afterColon(s string) string {
	if _, word, ok := strings.Cut(s, ":"); ok {
		return strings.TrimSpace(word)
	}
	return s
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
