package rpctest

import (
	"context"
	"hash/crc32"
	"sync"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// The program, of the range for users' own (RFC 5531 section 13).
const (
	prog = 0x20f50001
	low  = 3
	vers = 4 // the highest
)

// Procedures.
const (
	procNull = iota
	procEcho // opaque → opaque, neither a payload
	procPut  // word, payload, word → sum of words, length, checksum
	procGet  // length, seed → word, payload, word if the seed is odd
	procSwap // word, payload → payload, inverted, and the word
	procLong // length, seed → opaque, no payload
	procFail // accept_stat → that
	procHold // as procGet, when released
	procCred // → the credentials
	procMany // words, payloads → payloads
	procSeal // protected swap: see sealed
	numProcs
)

const maxData = 4 << 20

// program serves the calls of the suite.
type program struct {
	arrived chan uint32   // the XID of each procHold
	release chan struct{} // closed to let them go

	mu     sync.Mutex
	served int
}

func newProgram() *program {
	return &program{arrived: make(chan uint32, 1000), release: make(chan struct{})}
}

// count is the number of calls served.
func (p *program) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.served
}

// fill writes the bytes that belong to a seed.
func fill(b []byte, seed uint32) {
	x := seed*2654435761 + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
}

func (p *program) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	p.mu.Lock()
	p.served++
	p.mu.Unlock()
	switch {
	case q.Prog != prog:
		return transport.ProgUnavail
	case q.Vers < low || q.Vers > vers:
		q.Low, q.High = low, vers
		return transport.ProgMismatch
	}
	a, w := q.Args, q.Reply
	switch q.Proc {
	case procNull:
	case procEcho:
		w.Opaque(a.Opaque(maxData))
	case procPut:
		sum := a.Uint32()
		d := a.Data(maxData)
		w.Uint32(sum + a.Uint32())
		w.Uint32(uint32(len(d)))
		w.Uint32(crc32.ChecksumIEEE(d))
	case procGet, procHold:
		n, seed := a.Count(maxData), a.Uint32()
		if a.End() != nil {
			return transport.GarbageArgs
		}
		if q.Proc == procHold {
			p.arrived <- q.XID
			select {
			case <-p.release:
			case <-ctx.Done():
			}
		}
		s, err := q.Lease(n)
		if err != nil {
			return transport.SystemErr
		}
		fill(s.Bytes(), seed)
		w.Uint32(seed)
		w.Payload(q.AddPayload(mem.Vec{s}))
		if seed&1 != 0 {
			w.Uint32(^seed)
		}
	case procSwap:
		word := a.Uint32()
		d := a.Data(maxData)
		s, err := q.Lease(len(d))
		if err != nil {
			return transport.SystemErr
		}
		for i, c := range d {
			s.Bytes()[i] = ^c
		}
		w.Payload(q.AddPayload(mem.Vec{s}))
		w.Uint32(word)
	case procLong:
		b := make([]byte, a.Count(maxData))
		fill(b, a.Uint32())
		w.Opaque(b)
	case procFail:
		w.String("dropped")
		q.Low, q.High = 7, 9
		return transport.AcceptStat(a.Uint32())
	case procMany:
		if stat := serveMany(q); stat != transport.Success {
			return stat
		}
	case procSeal:
		if stat := serveSealed(q); stat != transport.Success {
			return stat
		}
	case procCred:
		w.Uint32(q.Flavor)
		w.Uint32(q.Sys.UID)
		w.Uint32(q.Sys.GID)
		w.Uint32(uint32(len(q.Sys.GIDs)))
		for _, g := range q.Sys.GIDs {
			w.Uint32(g)
		}
	default:
		return transport.ProcUnavail
	}
	if a.End() != nil {
		return transport.GarbageArgs
	}
	return transport.Success
}
