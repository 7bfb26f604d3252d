package script

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
)

// Proxy passes connections on to a TCP server, and tampers with the records that
// come back (RFC 5531 section 11), of which the first word is the XID.
type Proxy struct {
	s  *Script
	ln net.Listener
	to string
	wg sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

// Proxy serves ln, which it takes, until Close.
func (s *Script) Proxy(ln net.Listener, to string) *Proxy {
	p := &Proxy{s: s, ln: ln, to: to, open: map[net.Conn]bool{}}
	p.wg.Go(p.runAccept)
	return p
}

// Close ends all connections.
func (p *Proxy) Close() error {
	err := p.ln.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.open {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
	return err
}

func (p *Proxy) runAccept() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.to)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		if p.closed {
			client.Close()
			server.Close()
		}
		p.open[client], p.open[server] = true, true
		p.mu.Unlock()
		end := func() {
			client.Close()
			server.Close()
			p.mu.Lock()
			delete(p.open, client)
			delete(p.open, server)
			p.mu.Unlock()
		}
		p.wg.Go(func() { defer end(); _, _ = io.Copy(server, client) })
		p.wg.Go(func() { defer end(); p.runReplies(client, server) })
	}
}

// maxRecord bounds what is held of a server's record.
const maxRecord = 32 << 20

// runReplies passes whole records on.
func (p *Proxy) runReplies(client, server net.Conn) {
	for {
		var record []byte
		for last := false; !last; {
			head := make([]byte, 4)
			if _, err := io.ReadFull(server, head); err != nil {
				return
			}
			n := binary.BigEndian.Uint32(head)
			last = n>>31 != 0
			n &^= 1 << 31
			if len(record)+int(n) > maxRecord {
				return
			}
			part := make([]byte, n)
			if _, err := io.ReadFull(server, part); err != nil {
				return
			}
			record = append(record, part...)
		}
		if len(record) >= 4 && p.s.hit(func(r *rules) int { return r.foreign }) {
			record[0] ^= 1 << 6
		}
		out := append(binary.BigEndian.AppendUint32(nil, uint32(len(record))|1<<31), record...)
		if p.s.hit(func(r *rules) int { return r.double }) {
			out = append(out, out...)
		}
		if _, err := client.Write(out); err != nil {
			return
		}
	}
}
