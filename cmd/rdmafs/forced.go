package main

import (
	"context"
	"sync"
	"time"
)

// forcedGrace is how long a daemon that was told to end by force goes on
// trying to end in order: a server that is there takes what is left.
const forcedGrace = 3 * time.Second

// forced is the end of a mount by force.
type forced struct {
	abort func()
	// late ends forcedGrace after start.
	late context.Context
	end  context.CancelFunc
	once sync.Once
}

func newForced(abort func()) *forced {
	f := &forced{abort: abort}
	f.late, f.end = context.WithCancel(context.Background())
	return f
}

// start makes requests that wait for the server fail, and has the daemon end.
func (f *forced) start() {
	f.once.Do(func() {
		f.abort()
		time.AfterFunc(forcedGrace, f.end)
	})
}
