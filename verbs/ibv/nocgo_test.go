//go:build !cgo || !linux

package ibv

import (
	"errors"
	"testing"
)

func TestOpenWithoutCgo(t *testing.T) {
	if _, err := Open(t.Context(), Config{}); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("got %v", err)
	}
}
