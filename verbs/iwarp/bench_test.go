package iwarp

import (
	"context"
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

var benchConfigs = []struct {
	name string
	c    Config
}{
	{"plain", Config{}},
	{"crc", Config{CRC: true}},
	{"mss", Config{AlignToMSS: true}},
}

// runEcho answers each Send with an empty one until the connection ends.
func runEcho(s *side, done chan<- struct{}) {
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
func benchPair(b *testing.B, c Config, size int) (client *side, key uint32, addr uint64) {
	client, server := pair(b, c, 2*size, 0)
	if _, err := server.conn.PostRecv([]verbs.RecvWR{{Buf: server.arena.Seg(0, size)}}); err != nil {
		b.Fatal(err)
	}
	w, err := server.conn.NewWindow()
	if err != nil {
		b.Fatal(err)
	}
	seg := server.arena.Seg(size, size)
	key = w.Next(seg)
	server.post(verbs.SendWR{Op: verbs.OpBind, Window: w, Local: mem.Vec{seg}, Access: verbs.RemoteRead | verbs.RemoteWrite})
	done := make(chan struct{})
	go runEcho(server, done)
	b.Cleanup(func() {
		server.conn.Close()
		<-done
	})
	return client, key, w.Addr(seg)
}

// roundTrip posts wr, which end with a Send, and waits for the echo.
func (s *side) roundTrip(wr ...verbs.SendWR) {
	if _, err := s.conn.PostRecv([]verbs.RecvWR{{Buf: s.arena.Seg(0, 64)}}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.conn.PostSend(wr); err != nil {
		s.t.Fatal(err)
	}
	var wc [1]verbs.Completion
	if _, err := s.conn.Wait(context.Background(), wc[:]); err != nil {
		s.t.Fatal(err)
	}
}

func BenchmarkSend64(b *testing.B) {
	for _, bc := range benchConfigs {
		b.Run(bc.name, func(b *testing.B) {
			client, _, _ := benchPair(b, bc.c, 4096)
			v := mem.Vec{client.arena.Seg(64, 64)}
			wr := []verbs.SendWR{{Op: verbs.OpSend, Local: v}}
			b.ReportAllocs()
			for b.Loop() {
				client.roundTrip(wr...)
			}
		})
	}
}

const benchSize = 1 << 20

func BenchmarkSend1M(b *testing.B) {
	for _, bc := range benchConfigs {
		b.Run(bc.name, func(b *testing.B) {
			client, _, _ := benchPair(b, bc.c, benchSize)
			v := mem.Vec{client.arena.Seg(benchSize, benchSize)}
			b.SetBytes(benchSize)
			b.ReportAllocs()
			for b.Loop() {
				client.roundTrip(verbs.SendWR{Op: verbs.OpSend, Local: v})
			}
		})
	}
}

func BenchmarkWrite1M(b *testing.B) {
	for _, bc := range benchConfigs {
		b.Run(bc.name, func(b *testing.B) {
			client, key, addr := benchPair(b, bc.c, benchSize)
			v := mem.Vec{client.arena.Seg(benchSize, benchSize)}
			b.SetBytes(benchSize)
			b.ReportAllocs()
			for b.Loop() {
				client.roundTrip(verbs.SendWR{Op: verbs.OpWrite, Local: v, RKey: key, Addr: addr}, verbs.SendWR{Op: verbs.OpSend})
			}
		})
	}
}

func BenchmarkRead1M(b *testing.B) {
	for _, bc := range benchConfigs {
		b.Run(bc.name, func(b *testing.B) {
			client, key, addr := benchPair(b, bc.c, benchSize)
			v := mem.Vec{client.arena.Seg(benchSize, benchSize)}
			var wc [1]verbs.Completion
			b.SetBytes(benchSize)
			b.ReportAllocs()
			for b.Loop() {
				client.post(verbs.SendWR{Op: verbs.OpRead, Local: v, RKey: key, Addr: addr})
				if _, err := client.conn.Wait(context.Background(), wc[:]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
