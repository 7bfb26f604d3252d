package serve

import (
	"context"
	"sync"
	"time"
)

// ForcedGrace is how long a mount that is to end by force goes on trying to end in
// order: a server that answers accepts what is not written yet.
const ForcedGrace = 3 * time.Second

// force is the end of a mount by force.
type force struct {
	abort func()
	// expired ends ForcedGrace after start.
	expired context.Context
	cancel  context.CancelFunc
	once    sync.Once
}

func newForce(abort func()) *force {
	f := &force{abort: abort}
	f.expired, f.cancel = context.WithCancel(context.Background())
	return f
}

// start fails the requests that wait for the server, and has the mount end.
func (f *force) start() {
	f.once.Do(func() {
		f.abort()
		time.AfterFunc(ForcedGrace, f.cancel)
	})
}
