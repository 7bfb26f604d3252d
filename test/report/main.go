// Command report reads "go test -json" and prints a line for each package, the
// whole output of each failed test, and each skipped test with its reason. It
// ends with the slowest tests and the counts, and fails if anything failed or nothing ran.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// event is one of "go doc test2json".
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64
}

type counts struct{ passed, failed, skipped int }

func main() {
	c, long, err := report(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(2)
	}
	long.print(os.Stdout)
	fmt.Printf("%d passed, %d failed, %d skipped\n", c.passed, c.failed, c.skipped)
	if c.failed > 0 || c.passed == 0 {
		os.Exit(1)
	}
}

func report(from io.Reader, to io.Writer) (c counts, long slowest, err error) {
	said := make(map[string]*strings.Builder) // by package and test
	of := func(e event) *strings.Builder {
		key := e.Package + e.ImportPath + " " + e.Test
		if said[key] == nil {
			said[key] = new(strings.Builder)
		}
		return said[key]
	}
	in := bufio.NewReader(from)
	for {
		line, readErr := in.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				// What the go command itself has to say.
				if _, err := to.Write(line); err != nil {
					return c, long, err
				}
			} else if err := c.take(e, of(e), to); err != nil {
				return c, long, err
			}
			long.note(e)
		}
		if readErr == io.EOF {
			return c, long, nil
		}
		if readErr != nil {
			return c, long, readErr
		}
	}
}

// take counts one event. said is what its test has printed so far.
func (c *counts) take(e event, said *strings.Builder, to io.Writer) (err error) {
	switch {
	case e.Action == "output" || e.Action == "build-output":
		said.WriteString(e.Output)
	case e.Action == "build-fail":
		c.failed++
		_, err = io.WriteString(to, said.String())
	case e.Test == "" && e.Action == "fail":
		// A package can fail outside its tests: panic, TestMain, time-out.
		c.failed++
		_, err = fmt.Fprintf(to, "FAIL  %s\n%s", e.Package, said)
	case e.Test == "" && e.Action == "pass":
		_, err = fmt.Fprintf(to, "ok    %s  %.1fs\n", e.Package, e.Elapsed)
	case e.Action == "fail":
		c.failed++
		_, err = io.WriteString(to, said.String())
	case e.Test != "" && e.Action == "pass":
		c.passed++
	case e.Test != "" && e.Action == "skip":
		c.skipped++
		_, err = fmt.Fprintf(to, "SKIP  %s: %s\n", e.Test, reason(said.String()))
	}
	if e.Test != "" && (e.Action == "pass" || e.Action == "skip" || e.Action == "fail") {
		said.Reset()
	}
	return err
}

// reason is what a skipped test logged, on one line.
func reason(said string) string {
	var words []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			words = append(words, line)
		}
	}
	return strings.Join(words, "; ")
}
