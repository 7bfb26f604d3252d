package roce

import (
	"context"
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

const benchSize = 1 << 20

// runEcho answers each Send with an empty one until the connection ends.
func runEcho(s *end, done chan<- struct{}) {
	defer close(done)
	wc := make([]verbs.Completion, 16)
	for {
		n, err := s.conn.Wait(context.Background(), wc)
		if err != nil {
			return
		}
		for _, c := range wc[:n] {
			if c.Op != verbs.OpRecv {
				continue
			}
			if _, err := s.conn.PostRecv([]verbs.RecvWR{{ID: c.ID, Buf: s.arena.Seg(0, s.arena.Len()/2)}}); err != nil {
				s.t.Error(err)
			}
			if _, err := s.conn.PostSend([]verbs.SendWR{{Op: verbs.OpSend}}); err != nil {
				return
			}
		}
	}
}

// benchPair connects, has the server echo, and binds the server's upper half.
func benchPair(b *testing.B, size int) (client *end, key uint32, addr uint64) {
	client, server := pair(b, 2*size)
	server.recv(0, server.arena.Seg(0, size))
	key, addr = server.bind(server.arena.Seg(size, size), verbs.RemoteRead|verbs.RemoteWrite)
	done := make(chan struct{})
	go runEcho(server, done)
	b.Cleanup(func() {
		server.conn.Close()
		<-done
	})
	return client, key, addr
}

// roundTrip posts wr, which end with a Send, and waits for the echo.
func (e *end) roundTrip(wr ...verbs.SendWR) {
	e.recv(0, e.arena.Seg(0, 64))
	e.post(wr...)
	e.next(context.Background())
}

func BenchmarkSend64(b *testing.B) {
	client, _, _ := benchPair(b, 4096)
	wr := []verbs.SendWR{{Op: verbs.OpSend, Local: mem.Vec{client.arena.Seg(64, 64)}}}
	b.ReportAllocs()
	for b.Loop() {
		client.roundTrip(wr...)
	}
}

func BenchmarkWrite1M(b *testing.B) {
	client, key, addr := benchPair(b, benchSize)
	v := mem.Vec{client.arena.Seg(benchSize, benchSize)}
	b.SetBytes(benchSize)
	b.ReportAllocs()
	for b.Loop() {
		client.roundTrip(verbs.SendWR{Op: verbs.OpWrite, Local: v, RKey: key, Addr: addr}, verbs.SendWR{Op: verbs.OpSend})
	}
}

func BenchmarkRead1M(b *testing.B) {
	client, key, addr := benchPair(b, benchSize)
	v := mem.Vec{client.arena.Seg(benchSize, benchSize)}
	b.SetBytes(benchSize)
	b.ReportAllocs()
	for b.Loop() {
		client.post(verbs.SendWR{Op: verbs.OpRead, Local: v, RKey: key, Addr: addr})
		client.next(context.Background())
	}
}
