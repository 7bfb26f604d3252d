package knfsd

import (
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	p := Program{Args: []string{"-x", "a b"}, Env: []string{"A=it's"}, Wrapper: []string{"nice"}}
	want := `cd '/opt/p' && exec 'env' 'A=it'\''s' 'nice' '/opt/p/p' '-x' 'a b'`
	if got := commandLine("/opt/p/p", p); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestParseTests(t *testing.T) {
	const mark = "\x16" // with which test2json's own format marks its lines
	root, err := parseTests(t.Context(), strings.Join([]string{
		mark + "=== RUN   TestA", "said by A",
		mark + "=== RUN   TestA/one", mark + "--- PASS: TestA/one (0.00s)",
		mark + "=== RUN   TestA/two", mark + "--- SKIP: TestA/two (0.00s)",
		mark + "--- FAIL: TestA (0.00s)",
		mark + "=== RUN   TestB", "panic: all over", "",
	}, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"TestA": "fail", "TestA/one": "pass", "TestA/two": "skip", "TestB": ""} {
		if got := root.find(name).result; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"TestA": "said by A", "TestB": "panic: all over"} {
		if got := root.find(name).output.String(); !strings.Contains(got, want) {
			t.Errorf("%s: output %q lacks %q", name, got, want)
		}
	}
}
