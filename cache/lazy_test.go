package cache

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"
)

// TestMain checks behind all tests that none has changed what inodes share.
func TestMain(m *testing.M) {
	code := m.Run()
	shared := []any{neverWritten, neverDoubted, notReading}
	if slices.ContainsFunc(shared, func(v any) bool { return !reflect.ValueOf(v).IsZero() }) ||
		neverUsed != (used{written: &neverWritten, pages: &neverDoubted, spans: &notReading}) {
		fmt.Fprintf(os.Stderr, "what inodes share was changed: %+v %+v\n", shared, neverUsed)
		code = 1
	}
	os.Exit(code)
}
