// Package must fails a test for an error that it does not expect.
package must

import (
	"encoding/hex"
	"testing"
)

// Get returns a function that returns its value, and fails the test for an error: must.Get[int](t)(f()).
func Get[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		Do(t, err)
		return v
	}
}

// Do fails the test for an error.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Hex returns the bytes that a string of hexadecimal digits is.
func Hex(t testing.TB, digits string) []byte {
	t.Helper()
	b, err := hex.DecodeString(digits)
	Do(t, err)
	return b
}
