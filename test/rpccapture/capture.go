// Package rpccapture takes the RPCs out of packet captures of NFS over iWARP, RoCEv2 and
// TCP, for tests that decode what other implementations have sent. It knows of captures
// what those that the tests use need, and fails on anything else.
package rpccapture

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"

	"github.com/rdmafs/rdmafs/transport/xdr"
)

// RPC is the arguments or the results of one procedure, with everything that travelled
// in chunks put back in its place. A server's calls of its client are RPCs too.
type RPC struct {
	Prog, Vers, Proc uint32
	Reply            bool
	Body             []byte
	// Call is the index of the call that a reply belongs to.
	Call int
}

// endpoint is one direction of a flow.
type endpoint struct {
	src, dst   [4]byte
	sport, dpt uint16
}

func (e endpoint) reverse() endpoint {
	return endpoint{src: e.dst, dst: e.src, sport: e.dpt, dpt: e.sport}
}

const (
	portNFSRDMA = 20049
	portRoCE    = 4791
)

// capture takes the packets of a capture apart.
type capture struct {
	tcp   map[endpoint]*tcpStream
	rdma  map[[8]byte]*rdmaFlow // by the two addresses, client's first
	roce  map[queueID]*roceQueue
	calls map[string]int // indices of calls without a reply yet, by flow and xid
	found []RPC
}

// Read returns the RPCs of a classic pcap file of Ethernet frames.
func Read(file string) ([]RPC, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	if len(b) < 24 || le.Uint32(b) != 0xa1b2c3d4 || le.Uint32(b[20:]) != 1 {
		return nil, fmt.Errorf("%s: not a little-endian pcap of Ethernet", file)
	}
	c := &capture{tcp: map[endpoint]*tcpStream{}, rdma: map[[8]byte]*rdmaFlow{},
		roce: map[queueID]*roceQueue{}, calls: map[string]int{}}
	frame := 0
	for b = b[24:]; len(b) >= 16; frame++ {
		n := int(le.Uint32(b[8:]))
		if err := c.packet(b[16 : 16+n]); err != nil {
			return nil, fmt.Errorf("%s frame %d: %w", file, frame+1, err)
		}
		b = b[16+n:]
	}
	for e, s := range c.tcp {
		if len(s.later) > 0 {
			return nil, fmt.Errorf("%s: hole in the TCP stream %v", file, e)
		}
	}
	return c.found, nil
}

func (c *capture) packet(b []byte) error {
	be := binary.BigEndian
	if len(b) < 34 || be.Uint16(b[12:]) != 0x0800 {
		return nil
	}
	ip := b[14:]
	ihl := int(ip[0]&15) * 4
	body := ip[ihl:be.Uint16(ip[2:])]
	e := endpoint{src: [4]byte(ip[12:16]), dst: [4]byte(ip[16:20]), sport: be.Uint16(body), dpt: be.Uint16(body[2:])}
	switch ip[9] {
	case 17:
		switch {
		case e.dpt == portRoCE:
			return c.rocePacket(e, body[8:len(body)-4])
		case e.dpt == 111 || e.sport == 111:
			return c.rpc(fmt.Sprint(e), fmt.Sprint(e.reverse()), body[8:])
		}
	case 6:
		s := c.tcp[e]
		if s == nil {
			s = &tcpStream{}
			c.tcp[e] = s
		}
		flags := body[13]
		s.add(be.Uint32(body[4:]), flags&2 != 0, body[int(body[12]>>4)*4:])
		if e.sport == portNFSRDMA || e.dpt == portNFSRDMA {
			return c.iwarp(e, s)
		}
		return c.records(e, s)
	}
	return nil
}

// tcpStream puts segments in order; data is what has not been consumed yet.
type tcpStream struct {
	started bool
	next    uint32
	data    []byte
	later   map[uint32][]byte
	mpa     bool   // the MPA frame has been passed
	message []byte // untagged message so far
}

func (s *tcpStream) add(seq uint32, syn bool, b []byte) {
	if syn {
		*s = tcpStream{started: true, next: seq + 1}
		return
	}
	if !s.started || len(b) == 0 {
		return
	}
	if d := int32(s.next - seq); d > 0 {
		if int(d) >= len(b) {
			return
		}
		seq, b = s.next, b[d:]
	}
	if seq != s.next {
		if s.later == nil {
			s.later = map[uint32][]byte{}
		}
		s.later[seq] = b
		return
	}
	for b != nil {
		s.data = append(s.data, b...)
		s.next += uint32(len(b))
		b = s.later[s.next]
		delete(s.later, s.next)
	}
}

// records takes RPC records (RFC 5531 section 11) off a stream.
func (c *capture) records(e endpoint, s *tcpStream) error {
	var msg []byte
	for d := s.data; len(d) >= 4; {
		h := binary.BigEndian.Uint32(d)
		n := int(h & 0x7fffffff)
		if len(d) < 4+n {
			return nil
		}
		msg, d = append(msg, d[4:4+n]...), d[4+n:]
		if h>>31 == 0 {
			continue
		}
		if err := c.rpc(fmt.Sprint(e), fmt.Sprint(e.reverse()), msg); err != nil {
			return err
		}
		s.data, msg = d, nil
	}
	return nil
}

// rpc takes the header off an RPC message and keeps its body.
func (c *capture) rpc(from, to string, msg []byte) error {
	var r xdr.Reader
	r.Reset(msg, nil)
	xid := r.Uint32()
	if r.Uint32() == 0 {
		r.Uint32() // RPC version
		m := RPC{Prog: r.Uint32(), Vers: r.Uint32(), Proc: r.Uint32()}
		for range 2 {
			r.Uint32()
			r.Opaque(400)
		}
		c.calls[fmt.Sprint(from, xid)] = len(c.found)
		m.Call = len(c.found)
		return c.keep(m, &r)
	}
	call, ok := c.calls[fmt.Sprint(to, xid)]
	if !ok {
		return fmt.Errorf("reply %08x without a call", xid)
	}
	m := c.found[call]
	m.Reply, m.Call = true, call
	denied := r.Uint32()
	r.Uint32()
	r.Opaque(400)
	if stat := r.Uint32(); denied != 0 || stat != 0 {
		return r.Err()
	}
	return c.keep(m, &r)
}

func (c *capture) keep(m RPC, r *xdr.Reader) error {
	m.Body = slices.Clone(r.Fixed(r.Remaining()))
	if r.Err() != nil {
		return r.Err()
	}
	c.found = append(c.found, m)
	return nil
}
