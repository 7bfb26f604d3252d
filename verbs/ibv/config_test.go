package ibv

import (
	"strings"
	"testing"
)

func TestPinErrorHasFigures(t *testing.T) {
	text := (&PinError{Need: 2<<20 + 1, Pinned: 7 << 20, Limit: 8 << 20}).Error()
	for _, want := range []string{"2049 KiB", "7168 KiB", "8192 KiB", "ulimit -l", "LimitMEMLOCK"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
}
