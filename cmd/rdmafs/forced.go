package main

import (
	"context"
	"sync"
	"time"
)

// forcedGrace is how long a daemon that was told to end by force goes on
// trying to end in order: a server that answers accepts what is not written yet.
const forcedGrace = 3 * time.Second

// forcedEnd is the end of a mount by force.
type forcedEnd struct {
	abort func()
	// expired ends forcedGrace after start.
	expired context.Context
	cancel  context.CancelFunc
	once    sync.Once
}

func newForcedEnd(abort func()) *forcedEnd {
	f := &forcedEnd{abort: abort}
	f.expired, f.cancel = context.WithCancel(context.Background())
	return f
}

// start fails the requests that wait for the server, and has the daemon end.
func (f *forcedEnd) start() {
	f.once.Do(func() {
		f.abort()
		time.AfterFunc(forcedGrace, f.cancel)
	})
}
