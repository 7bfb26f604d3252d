package session

import (
	"context"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/reconnect"
)

// TestSoftRevalWaits: a revalidation waits timeo and retrans, but not again while the server is silent, except
// now and then; and on a soft mount longer than the client, whose error counts.
func TestSoftRevalWaits(t *testing.T) {
	p := reconnect.Patience{Timeo: time.Hour, Retrans: 2}
	silent, now := false, time.Now()
	r := &revalidations{patience: func() reconnect.Patience { return p }, silent: func() bool { return silent }, now: func() time.Time { return now }}
	// waits is for how long one waits at least, in hours; 0 is less than a minute.
	waits := func() int {
		t.Helper()
		ctx, cancel := r.limit(t.Context())
		defer cancel()
		end, ok := ctx.Deadline()
		if !ok {
			t.Fatal("no deadline")
		}
		return int(time.Until(end).Round(time.Hour) / time.Hour)
	}
	want := func(what string, hours int) {
		t.Helper()
		if n := waits(); n != hours {
			t.Errorf("%s: waits %d h, want %d", what, n, hours)
		}
	}
	want("at first", 3)
	silent = true
	want("silent", 0)
	now = now.Add(fullWaitInterval - time.Second)
	want("still silent", 0)
	now = now.Add(time.Second)
	want("long silent", 3)
	want("after that", 0)
	silent = false
	want("back", 3)
	p.Soft = true
	want("soft", 6)
	silent = true
	want("soft and silent", 6)

	p = reconnect.Patience{Timeo: time.Nanosecond}
	silent = false
	ctx, cancel := r.limit(t.Context())
	defer cancel()
	<-ctx.Done()
	if context.Cause(ctx) != transport.ErrTimeout {
		t.Errorf("a full wait ended with %v", context.Cause(ctx))
	}
	silent = true
	ctx, cancel = r.limit(t.Context())
	defer cancel()
	<-ctx.Done()
	if context.Cause(ctx) != context.DeadlineExceeded {
		t.Errorf("a short wait ended with %v", context.Cause(ctx))
	}
}
