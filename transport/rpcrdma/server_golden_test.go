package rpcrdma

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
)

// goldenCall is a call of the Linux client's, and the header of the Linux
// server's reply. testdata/messages.py made them.
type goldenCall struct {
	capture     string
	call, reply Header
	body        []byte
}

func goldenCalls(t testing.TB) (calls []goldenCall) {
	t.Helper()
	text, err := os.ReadFile("testdata/messages.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(strings.ReplaceAll(line, " -", " "))
		if len(f) == 3 { // no body
			f = append(f[:2], "", f[2])
		}
		var b [3][]byte
		for i := range b {
			if b[i], err = hex.DecodeString(f[1+i]); err != nil {
				t.Fatal(err)
			}
		}
		g := goldenCall{capture: f[0], body: b[1]}
		if n, err := ParseHeader(b[0], &g.call); err != nil || n != len(b[0]) {
			t.Fatalf("%s: %d, %v", f[1], n, err)
		}
		if n, err := ParseHeader(b[2], &g.reply); err != nil || n != len(b[2]) {
			t.Fatalf("%s: %d, %v", f[3], n, err)
		}
		calls = append(calls, g)
	}
	return calls
}

// goldenProgram answers calls with results of the shape that the Linux server
// gave, and keeps what was sent to it in a read chunk.
type goldenProgram struct {
	next chan *goldenCall
	got  chan []byte
}

func (p *goldenProgram) Serve(_ context.Context, q *transport.Request) transport.AcceptStat {
	g := <-p.next
	var data []byte
	if l := g.call.Lists.Read; len(l) > 0 && l[0].Position > 0 {
		// Up to the item that was moved, however the arguments go.
		q.Args.Fixed(int(l[0].Position) - 4 - q.Args.Offset())
		data = bytes.Clone(q.Args.Data(1 << 20))
	} else if len(l) > 0 {
		data = bytes.Clone(q.Args.Fixed(q.Args.Remaining()))
	}
	if q.Args.Err() != nil {
		return transport.GarbageArgs
	}
	if l := g.reply.Lists.Write; len(l) > 0 {
		s, err := q.Lease(l[0].Len())
		if err != nil {
			return transport.SystemErr
		}
		copy(s.Bytes(), testPattern(s.Len))
		q.Reply.Payload(q.AddPayload(transport.Payload{s}))
	}
	if n := g.reply.Lists.Reply.Len(); n > 0 {
		q.Reply.Fixed(testPattern(n - 24))
	}
	p.got <- data
	return transport.Success
}

// TestServerGolden plays the Linux client's calls, with its memory replaced by
// ours, to the responder, and compares the headers of the replies.
func TestServerGolden(t *testing.T) {
	p := &goldenProgram{next: make(chan *goldenCall, 1), got: make(chan []byte, 1)}
	s := startServerWith(t, ServerConfig{}, p)
	c := dialRaw(t, s.addr, []byte{0, 0x80, 0, 0, 0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3})
	shapes := map[string]int{}
	for i, g := range goldenCalls(t) {
		playGolden(t, c, p, &g, fmt.Sprintf("%d of %s", i, g.capture))
		l := g.call.Lists
		shapes[fmt.Sprintf("%v %d %d %v", g.call.Proc, min(len(l.Read), 1), len(l.Write), l.Reply != nil)]++
	}
	// Inline, read chunk, write chunk, reply chunk, Position Zero.
	if len(shapes) != 5 {
		t.Errorf("shapes seen: %v", shapes)
	}
}

func playGolden(t *testing.T, c *rawClient, p *goldenProgram, g *goldenCall, name string) {
	t.Helper()
	used := 0
	bind := func(s *wire.Segment, a verbs.Access) {
		mine := c.bind(c.data.Slice(used, int(s.Length)), a)
		used += int(s.Length)
		s.Handle, s.Offset = mine.Handle, mine.Offset
	}
	h := g.call
	clear(c.data.Bytes())
	sent := 0
	for i := range h.Lists.Read {
		bind(&h.Lists.Read[i].Segment, verbs.RemoteRead)
		sent = used
	}
	copy(c.data.Bytes(), testPattern(sent))
	want := bytes.Clone(c.data.Bytes()[:sent])
	if h.Proc == wire.ProcNoMsg {
		head := rpcCall(h.XID, 1)
		copy(c.data.Bytes(), head)
		want = want[len(head):]
	}
	for _, w := range h.Lists.Write {
		for i := range w {
			bind(&w[i], verbs.RemoteWrite)
		}
	}
	for i := range h.Lists.Reply {
		bind(&h.Lists.Reply[i], verbs.RemoteWrite)
	}
	p.next <- g
	c.call(h, g.body)
	got, body := c.reply()
	if data := <-p.got; !bytes.Equal(data, want) {
		t.Errorf("%s: %d bytes pulled, want %d", name, len(data), len(want))
	}
	// What the Linux server returned, but for the handles; and a reply that
	// fits goes inline where it always takes the reply chunk.
	expect := Header{XID: h.XID, Version: 1, Credits: min(h.Credits, 128), Proc: g.reply.Proc,
		Lists: wire.Lists{Read: got.Lists.Read, Write: h.Lists.Write, Reply: h.Lists.Reply}}
	total := g.reply.Lists.Reply.Len()
	for i, w := range h.Lists.Write {
		for j := range w {
			w[j].Length = g.reply.Lists.Write[i][j].Length
		}
	}
	if g.reply.Proc == wire.ProcNoMsg && total <= 4096-returnedLen(&h) {
		expect.Proc = wire.ProcMsg
		h.Lists.Reply.Fill(0)
	} else {
		h.Lists.Reply.Fill(total)
	}
	if a, b := encodeHeader(&got), encodeHeader(&expect); !bytes.Equal(a, b) {
		t.Errorf("%s: reply's header\n%x, want\n%x", name, a, b)
	}
	if expect.Proc == wire.ProcMsg && len(body) < 24 || expect.Proc == wire.ProcNoMsg && len(body) != 0 {
		t.Errorf("%s: %d bytes inline", name, len(body))
	}
}
