package rpctest

import (
	"net"
	"sync"
)

// Cutter is a TCP listener that can sever the connections it has accepted.
type Cutter struct {
	net.Listener
	mu    sync.Mutex
	conns []*net.TCPConn
}

// Accept implements net.Listener.
func (c *Cutter) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.mu.Lock()
		c.conns = append(c.conns, conn.(*net.TCPConn))
		c.mu.Unlock()
	}
	return conn, err
}

// Cut resets all connections accepted so far.
func (c *Cutter) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.SetLinger(0) // a reset, what is on its way is lost; closed ones refuse
		_ = conn.Close()
	}
	c.conns = nil
}
