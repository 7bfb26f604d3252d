package rpccapture

import (
	"encoding/binary"
	"fmt"
	"slices"

	rdmawire "github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// rdmaFlow follows what a server did in its client's memory, and puts chunks
// back into the RPC messages they were taken out of.
type rdmaFlow struct {
	name  string
	mem   map[uint32][]extent // by rkey
	reads []readRequest
	calls map[uint32]pendingCall
}

type extent struct {
	addr uint64
	data []byte
}

// readRequest is an RDMA Read: bytes that come to sinkKey/sink belong to
// key/addr of the client's memory.
type readRequest struct {
	sinkKey    uint32
	sink       uint64
	key        uint32
	addr       uint64
	n          uint32
	psn, count uint32
}

type pendingCall struct {
	lists  rdmawire.Lists
	noMsg  bool
	inline []byte
}

// flow is the flow between two hosts; fromClient tells who sends.
func (c *capture) flow(e endpoint, fromClient bool) *rdmaFlow {
	if !fromClient {
		e = e.reverse()
	}
	key := [8]byte(append(e.src[:], e.dst[:]...))
	f := c.rdma[key]
	if f == nil {
		f = &rdmaFlow{name: fmt.Sprint(e.src, e.dst), mem: map[uint32][]extent{}, calls: map[uint32]pendingCall{}}
		c.rdma[key] = f
	}
	return f
}

func (f *rdmaFlow) place(key uint32, addr uint64, b []byte) {
	f.mem[key] = append(f.mem[key], extent{addr, slices.Clone(b)})
}

// fetch reads memory that was placed or read before.
func (f *rdmaFlow) fetch(s rdmawire.Segment) ([]byte, error) {
	out, have := make([]byte, s.Length), make([]bool, s.Length)
	for _, x := range f.mem[s.Handle] {
		for i, b := range x.data {
			if p := x.addr + uint64(i) - s.Offset; p < uint64(s.Length) {
				out[p], have[p] = b, true
			}
		}
	}
	if i := slices.Index(have, false); i >= 0 {
		return nil, fmt.Errorf("byte %d of segment %+v was never moved", i, s)
	}
	return out, nil
}

// send takes a message received by Send.
func (c *capture) send(f *rdmaFlow, fromClient bool, msg []byte) error {
	m, n, err := rdmawire.Parse(msg, rdmawire.AllVersions)
	if err != nil {
		return err
	}
	h, ok := m.(*rdmawire.Msg)
	if !ok {
		return fmt.Errorf("RDMA message of type %d", m.Fixed().Proc)
	}
	rest := slices.Clone(msg[n:])
	// A server calls its client without chunks (RFC 8167); the second word of an RPC
	// message says whether it is a call.
	if h.Proc == rdmawire.ProcMsg && len(rest) >= 8 && (binary.BigEndian.Uint32(rest[4:]) == 0) != fromClient {
		if fromClient {
			return c.rpc("", f.name+" back", rest)
		}
		return c.rpc(f.name+" back", "", rest)
	}
	if fromClient {
		f.calls[h.XID] = pendingCall{lists: h.Lists, noMsg: h.Proc == rdmawire.ProcNoMsg, inline: rest}
		return nil
	}
	call, ok := f.calls[h.XID]
	if !ok {
		return fmt.Errorf("RDMA reply %08x without a call", h.XID)
	}
	delete(f.calls, h.XID)
	whole, err := f.wholeCall(call)
	if err != nil {
		return err
	}
	if err := c.rpc(f.name, "", whole); err != nil {
		return err
	}
	if h.Proc == rdmawire.ProcNoMsg {
		rest = nil
		for _, s := range h.Lists.Reply {
			b, err := f.fetch(s)
			if err != nil {
				return err
			}
			rest = append(rest, b...)
		}
	}
	// In NFSv3, and in the compounds of the Linux client, data is the last item of the
	// results, so that a write chunk belongs at the end.
	for _, chunk := range h.Lists.Write {
		if chunk.Len() == 0 {
			continue
		}
		want := int(binary.BigEndian.Uint32(rest[len(rest)-4:]))
		for _, s := range chunk {
			b, err := f.fetch(s)
			if err != nil {
				return err
			}
			rest = append(rest, b[:min(len(b), want)]...)
			want -= min(len(b), want)
		}
		if want != 0 {
			return fmt.Errorf("reply %08x: write chunk is %d bytes short", h.XID, want)
		}
		rest = append(rest, make([]byte, xdr.Pad(len(rest)))...)
	}
	for _, k := range call.lists.Keys(nil) {
		delete(f.mem, k)
	}
	return c.rpc("", f.name, rest)
}

func (f *rdmaFlow) wholeCall(call pendingCall) ([]byte, error) {
	var item []byte
	pos := -1
	for _, s := range call.lists.Read {
		if pos >= 0 && int(s.Position) != pos {
			return nil, fmt.Errorf("read chunks at positions %d and %d", pos, s.Position)
		}
		pos = int(s.Position)
		b, err := f.fetch(s.Segment)
		if err != nil {
			return nil, err
		}
		item = append(item, b...)
	}
	switch {
	case call.noMsg:
		return item, nil
	case pos < 0:
		return call.inline, nil
	}
	item = append(item, make([]byte, xdr.Pad(len(item)))...)
	return slices.Concat(call.inline[:pos], item, call.inline[pos:]), nil
}

// iwarp takes FPDUs (RFC 5044) off a stream.
func (c *capture) iwarp(e endpoint, s *tcpStream) error {
	be := binary.BigEndian
	if !s.mpa {
		if len(s.data) < 20 || len(s.data) < 20+int(be.Uint16(s.data[18:])) {
			return nil
		}
		s.data, s.mpa = s.data[20+int(be.Uint16(s.data[18:])):], true
	}
	fromClient := e.dpt == portNFSRDMA
	f := c.flow(e, fromClient)
	for len(s.data) >= 2 {
		n := 2 + int(be.Uint16(s.data))
		if len(s.data) < n+xdr.Pad(n)+4 {
			return nil
		}
		p := s.data[:n]
		s.data = s.data[n+xdr.Pad(n)+4:]
		switch ctrl := be.Uint16(p[2:]); ctrl & 15 {
		case 0: // RDMA Write
			f.place(be.Uint32(p[4:]), be.Uint64(p[8:]), p[16:])
		case 1: // Read Request
			f.reads = append(f.reads, readRequest{sinkKey: be.Uint32(p[20:]), sink: be.Uint64(p[24:]),
				n: be.Uint32(p[32:]), key: be.Uint32(p[36:]), addr: be.Uint64(p[40:])})
		case 2: // Read Response
			key, to := be.Uint32(p[4:]), be.Uint64(p[8:])
			for i := len(f.reads) - 1; i >= 0; i-- {
				if q := f.reads[i]; q.sinkKey == key && to-q.sink < uint64(q.n) {
					f.place(q.key, q.addr+to-q.sink, p[16:])
					break
				}
			}
		case 3, 4, 5, 6: // Send
			s.message = append(s.message, p[20:]...)
			if ctrl&0x4000 != 0 {
				if err := c.send(f, fromClient, s.message); err != nil {
					return err
				}
				s.message = nil
			}
		}
	}
	return nil
}

// queueID names a queue pair: both hosts may use the same number.
type queueID struct {
	host [4]byte
	qpn  uint32
}

// roceQueue is the requests that go to one queue pair.
type roceQueue struct {
	psn     uint32 // of the request expected next
	key     uint32 // where the Write under way stands
	addr    uint64
	message []byte // so far
}

const roceMTU = 1024

// rocePacket takes one RoCEv2 packet, from its BTH on, without ICRC. Packets
// out of order are dropped: the sender goes back and sends them again.
func (c *capture) rocePacket(e endpoint, p []byte) error {
	be := binary.BigEndian
	op, pad, qpn, psn := p[0], int(p[1]>>4&3), be.Uint32(p[4:])&0xffffff, be.Uint32(p[8:])&0xffffff
	p = p[12 : len(p)-pad]
	// The server has the lower address in these captures.
	fromClient := e.src[3] > e.dst[3]
	f := c.flow(e, fromClient)
	switch {
	case op > 0x17 || op == 0x11:
		return nil
	case op >= 0x0d && op <= 0x10: // Read Response, to the requester's queue pair
		if op != 0x0e {
			p = p[4:]
		}
		for i := len(f.reads) - 1; i >= 0; i-- {
			if q := f.reads[i]; (psn-q.psn)&0xffffff < q.count {
				f.place(q.key, q.addr+uint64((psn-q.psn)&0xffffff)*roceMTU, p)
				break
			}
		}
		return nil
	}
	id := queueID{e.dst, qpn}
	q := c.roce[id]
	if q == nil {
		q = &roceQueue{psn: psn}
		c.roce[id] = q
	}
	if op == 0x0c { // Read Request; a repeated one may start in the middle
		n := be.Uint32(p[12:])
		r := readRequest{addr: be.Uint64(p), key: be.Uint32(p[8:]), n: n, psn: psn, count: max(1, (n+roceMTU-1)/roceMTU)}
		f.reads = append(f.reads, r)
		if psn == q.psn {
			q.psn = (psn + r.count) & 0xffffff
		}
		return nil
	}
	if psn != q.psn {
		return nil
	}
	q.psn = (psn + 1) & 0xffffff
	switch op {
	case 0x06, 0x0a: // Write First, Only
		q.addr, q.key = be.Uint64(p), be.Uint32(p[8:])
		p = p[16:]
		fallthrough
	case 0x07, 0x08:
		f.place(q.key, q.addr, p)
		q.addr += uint64(len(p))
	case 0x16, 0x17: // with Invalidate
		p = p[4:]
		fallthrough
	case 0x00, 0x01, 0x02, 0x04:
		q.message = append(q.message, p...)
		if op != 0x00 && op != 0x01 {
			msg := q.message
			q.message = nil
			return c.send(f, fromClient, msg)
		}
	}
	return nil
}
