package nlm

import (
	"context"
	"sync"

	"github.com/rdmafs/rdmafs/transport"
)

// Watched is a Dialer that tells of the end of each connection. Servers may restart
// NFS alone: a Linux server drops its locks then, and keeps the connections of a lock
// manager that it needs for itself.
type Watched struct {
	transport.Dialer
	// Lost is called when a connection has ended, for whatever reason.
	Lost func()

	watching sync.WaitGroup // runWatch
}

// Dial implements transport.Dialer.
func (w *Watched) Dial(ctx context.Context) (transport.Link, error) {
	l, err := w.Dialer.Dial(ctx)
	if err == nil {
		w.watching.Go(func() { w.runWatch(l) })
	}
	return l, err
}

func (w *Watched) runWatch(l transport.Link) {
	<-l.Done()
	w.Lost()
}

// Close implements transport.Dialer. All connections are closed.
func (w *Watched) Close() error {
	w.watching.Wait()
	return w.Dialer.Close()
}
