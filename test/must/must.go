// Package must fails a test for an error that it does not expect.
package must

import "testing"

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
