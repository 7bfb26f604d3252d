package plain

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                            "",
		`server:/a b\c "d"`:           `server:/a b\c "d"`,
		"Größe, 大きさ, e\u0301":         "Größe, 大きさ, e\u0301",
		"\x1b]0;owned\x07":            `\x1b]0;owned\x07`,
		"a\nb\rc\td\x00":              `a\nb\rc\td\x00`,
		"del\x7f":                     `del\x7f`,
		"csi\u009b31m":                `csi\u009b31m`,
		"raw\x9b31m\xff":              `raw\x9b31m\xff`,
		"exe\u202etxt.\u2066\u200f":   `exe\u202etxt.\u2066\u200f`,
		"line\u2028end\ufeff":         `line\u2028end\ufeff`,
		"tag\U000e0041":               `tag\U000e0041`,
		"replacement \ufffd is plain": "replacement \ufffd is plain",
	} {
		if got := Text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		if again := Text(want); again != want {
			t.Errorf("%q is not plain: %q", want, again)
		}
	}
}

func TestFprintf(t *testing.T) {
	var b strings.Builder
	type word string
	Fprintf(&b, "%s\t%d %v %v %s\n", "a\nb", 7, errors.New("c\x1b"), netip.MustParseAddr("fe80::1%\x1b[2J"), word("\a"))
	if want := "a\\nb\t7 c\\x1b fe80::1%\\x1b[2J \\x07\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// TestLines: a message of a logger is one line, whatever is in it.
func TestLines(t *testing.T) {
	var b strings.Builder
	w := Lines(&b)
	for _, s := range []string{"one\ntwo\n", "\x1b[2J\n", "open"} {
		if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
			t.Errorf("%q: %d, %v", s, n, err)
		}
	}
	if want := "one\\ntwo\n\\x1b[2J\nopen"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// FuzzText: whatever comes in, a terminal gets nothing but what it shows, and a
// reader of JSON the same value.
func FuzzText(f *testing.F) {
	for _, s := range []string{"plain", "\x1b[2J\x7f\u009b\u202e\U000e0041", "\xff\xfe\x00", "\ufffd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		shown := Text(s)
		if !utf8.ValidString(shown) || strings.ContainsFunc(shown, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			t.Errorf("%q becomes %q", s, shown)
		}
		b, err := json.MarshalIndent(map[string]string{"s": s}, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		b2 := JSON(b)
		if strings.ContainsFunc(string(b2), func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }) {
			t.Errorf("%q in JSON: %q", s, b2)
		}
		var v, v2 map[string]string
		if err := errors.Join(json.Unmarshal(b, &v), json.Unmarshal(b2, &v2)); err != nil || v["s"] != v2["s"] {
			t.Errorf("%q: %q, want %q, %v", s, v2["s"], v["s"], err)
		}
	})
}
