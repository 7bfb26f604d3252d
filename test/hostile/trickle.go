package hostile

import (
	"net"
	"sync"
)

// Trickle is a listener whose connections deliver what is written to them one
// byte at a time, the next whenever Tick allows it: a server that takes a
// minute for each byte, without the minute.
type Trickle struct {
	net.Listener
	// Tick lets out a byte for each value received. Once it is closed, or while
	// it is nil, everything passes.
	Tick <-chan struct{}
}

// Accept implements net.Listener.
func (t *Trickle) Accept() (net.Conn, error) {
	c, err := t.Listener.Accept()
	if err != nil || t.Tick == nil {
		return c, err
	}
	return &trickling{Conn: c, tick: t.Tick, done: make(chan struct{})}, nil
}

type trickling struct {
	net.Conn
	tick <-chan struct{}
	done chan struct{}
	once sync.Once // closes done
}

func (c *trickling) Write(b []byte) (n int, err error) {
	for n < len(b) {
		select {
		case _, open := <-c.tick:
			if !open {
				m, err := c.Conn.Write(b[n:])
				return n + m, err
			}
		case <-c.done:
			return n, net.ErrClosed
		}
		if _, err := c.Conn.Write(b[n : n+1]); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Close ends a Write that waits.
func (c *trickling) Close() error {
	c.once.Do(func() { close(c.done) })
	return c.Conn.Close()
}
