package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	const in = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: quiet\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:1: needs root\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:1: loud\n"}
{"Action":"fail","Package":"p","Test":"TestC/part","Elapsed":71}
{"Action":"fail","Package":"p","Test":"TestC","Elapsed":72}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"fail","Package":"p","Elapsed":0.1}
{"Action":"pass","Package":"q","Elapsed":1.25}
go: some warning
{"Action":"build-output","ImportPath":"r","Output":"r.go:1: syntax error\n"}
{"Action":"build-fail","ImportPath":"r"}
`
	var out strings.Builder
	c, long, err := report(strings.NewReader(in), &out)
	long.print(&out)
	if err != nil || c != (counts{passed: 1, failed: 4, skipped: 1}) {
		t.Errorf("%+v, %v", c, err)
	}
	for _, want := range []string{"SKIP  TestB: b_test.go:1: needs root\n", "c_test.go:1: loud", "FAIL  p\nFAIL\n", "ok    q  1.2s", "go: some warning", "syntax error", "SLOW  p TestC  72s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("missing %q in\n%s", want, out.String())
		}
	}
	if strings.Count(out.String(), "SLOW") != 1 {
		t.Errorf("one test is slow:\n%s", out.String())
	}
	if strings.Contains(out.String(), "quiet") {
		t.Errorf("a test that passed is quoted:\n%s", out.String())
	}
}
