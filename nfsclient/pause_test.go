package nfsclient

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestPauseEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Pause(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := Pause(t.Context(), time.Nanosecond); err != nil {
		t.Error(err)
	}
}
