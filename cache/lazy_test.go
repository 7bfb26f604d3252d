package cache

import (
	"fmt"
	"os"
	"reflect"
	"testing"
)

// TestMain checks behind all tests that none has changed what inodes share.
func TestMain(m *testing.M) {
	code := m.Run()
	if !reflect.ValueOf(neverWritten).IsZero() || !reflect.ValueOf(neverDoubted).IsZero() {
		fmt.Fprintf(os.Stderr, "what inodes share was changed: %+v, %+v\n", neverWritten, neverDoubted)
		code = 1
	}
	os.Exit(code)
}
