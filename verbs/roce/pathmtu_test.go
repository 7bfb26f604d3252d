package roce

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/netns"
	"github.com/rdmafs/rdmafs/test/testlog"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// narrowHosts are two hosts, of which the first has jumbo frames and the second,
// though it takes any path MTU, has not.
func narrowHosts(t *testing.T) (jumbo, narrow netns.Host) {
	jumbo, narrow = netns.Hosts(t, 9000)
	if err := narrow.Do(func() error { return netns.IP(fmt.Sprintf("link set %s mtu 1500", netns.Link)) }); err != nil {
		t.Fatal(err)
	}
	for _, h := range []netns.Host{jumbo, narrow} {
		if err := h.Cut(); err != nil {
			t.Fatal(err)
		}
	}
	return jumbo, narrow
}

// TestNarrowPath: where the path takes less than the client's network card, each
// connection that large packets do not pass ends in seconds, the next has a
// smaller path MTU, and one with 1024 bytes moves the data. That is said.
func TestNarrowPath(t *testing.T) {
	const size = 64 << 10
	for _, c := range []struct {
		name string
		// move begins to move all of the one's memory to the other's.
		move func(client, server *end)
		from func(client, server *end) *end
		// mover is the side whose completion shows that it is done.
		mover func(client, server *end) *end
	}{
		{name: "server reads", move: func(c, s *end) {
			key, va := c.bind(c.arena.Seg(0, size), verbs.RemoteRead)
			s.post(verbs.SendWR{Op: verbs.OpRead, Signaled: true, Local: mem.Vec{s.arena.Seg(0, size)}, RKey: key, Addr: va})
		}, from: first2, mover: second2},
		{name: "server writes", move: func(c, s *end) {
			key, va := c.bind(c.arena.Seg(0, size), verbs.RemoteWrite)
			s.post(verbs.SendWR{Op: verbs.OpWrite, Signaled: true, Local: mem.Vec{s.arena.Seg(0, size)}, RKey: key, Addr: va})
		}, from: second2, mover: second2},
		{name: "client sends", move: func(c, s *end) {
			s.recv(1, s.arena.Seg(0, size))
			c.post(verbs.SendWR{Op: verbs.OpSend, Signaled: true, Local: mem.Vec{c.arena.Seg(0, size)}})
		}, from: first2, mover: first2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			a, b := narrowHosts(t)
			var mu sync.Mutex
			var said []string
			client := newEnd(t, Config{Log: testlog.To(func(message string) {
				mu.Lock()
				said = append(said, message)
				mu.Unlock()
			})}, size)
			server := newEnd(t, Config{}, size)
			device := client.dev
			client.dev, server.dev = elsewhere{device, a}, elsewhere{server.dev, b}
			from := c.from(client, server)
			for k := range from.arena.Seg(0, size).Bytes() {
				from.arena.Seg(0, size).Bytes()[k] = byte(k>>8) ^ byte(k)
			}
			var mtus []int
			for done := false; !done && len(mtus) < 5; {
				dial(t, client, server, client.options(), b.IPv4)
				mtus = append(mtus, client.conn.(*conn).mtu)
				c.move(client, server)
				var wc [1]verbs.Completion
				_, err := c.mover(client, server).conn.Wait(ctx, wc[:])
				if err != nil && ctx.Err() != nil {
					t.Fatalf("path MTUs %v: %v", mtus, err)
				}
				done = err == nil
				if !done && len(mtus) == 5 {
					t.Errorf("the last ended with %v", err)
				}
				client.conn.Close()
				server.conn.Close()
				client.conn, server.conn = nil, nil
			}
			if !bytes.Equal(client.arena.Seg(0, size).Bytes(), server.arena.Seg(0, size).Bytes()) {
				t.Error("other bytes arrived")
			}
			if fmt.Sprint(mtus) != "[4096 2048 1024]" {
				t.Errorf("path MTUs %v", mtus)
			}
			if got, ok := LoweredMTU(device, b.IPv4); !ok || got != 1024 {
				t.Errorf("lowered to %d, %v", got, ok)
			}
			if _, ok := LoweredMTU(device, netip.MustParseAddr("192.0.2.1")); ok {
				t.Error("lowered for another peer")
			}
			mu.Lock()
			defer mu.Unlock()
			if len(said) != 2 || !strings.Contains(said[1], "2048") || !strings.Contains(said[1], "1024") {
				t.Errorf("said %q", said)
			}
		})
	}
}

func first2(client, _ *end) *end  { return client }
func second2(_, server *end) *end { return server }
