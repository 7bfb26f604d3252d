package mark

import (
	"testing"
	"time"
)

// TestServerClock: the server's clock is known from a quick call, for a while.
func TestServerClock(t *testing.T) {
	var k serverClock
	now := time.Now()
	there := now.Add(-3 * time.Hour)
	if _, ok := k.now(); ok {
		t.Error("a time out of nothing")
	}
	k.made(now.Add(-time.Minute), there)
	k.made(now, time.Unix(0, 0))
	if _, ok := k.now(); ok {
		t.Error("the time of a slow call, or none, is taken")
	}
	k.last.Store(&clockReading{now.Add(-5 * time.Minute), there.Add(-5 * time.Minute)})
	if got, ok := k.now(); !ok || got.Sub(there).Abs() > time.Minute {
		t.Errorf("%v, %v", got, ok)
	}
	k.last.Store(&clockReading{now.Add(-maxReadingAge), there})
	if _, ok := k.now(); ok {
		t.Error("an old time is believed")
	}
}
