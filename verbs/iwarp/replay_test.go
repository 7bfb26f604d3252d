package iwarp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// TestReplay has the captured Linux server talk to this provider: its reply, then all
// it sent up to the capture's first gap, with windows under the keys that the
// captured client had advertised.
func TestReplay(t *testing.T) {
	var fromServer []byte
	for _, s := range readCapture(t, "testdata/siw-nfsv3.pcap", 20049) {
		if !s.toServer {
			fromServer = s.b
			break
		}
	}
	reply, stream := fromServer[:32], fromServer[32:]

	// What must come out, by the headers alone.
	type extent struct{ lo, hi uint64 }
	extents := map[uint32]*extent{}
	var writes []header
	var bodies, sends [][]byte
	for b := stream; len(b) > 0; {
		var h header
		var body []byte
		h, body, b = nextFPDU(t, b)
		switch h.op {
		case opWrite:
			e := extents[h.stag]
			if e == nil {
				e = &extent{h.to, h.to}
				extents[h.stag] = e
			}
			e.lo, e.hi = min(e.lo, h.to), max(e.hi, h.to+uint64(len(body)))
			writes, bodies = append(writes, h), append(bodies, body)
		case opSend:
			sends = append(sends, body)
		default:
			t.Fatalf("opcode %d in the first stretch", h.op)
		}
	}
	if len(writes) == 0 || len(sends) == 0 {
		t.Fatalf("%d Writes and %d Sends", len(writes), len(sends))
	}

	const recvSize, windows = 4096, 1 << 20
	s := newSide(t, Config{}, len(sends)*recvSize+windows)
	s.readsIn = 128
	begin := make(chan struct{})
	err := s.against(func(int, mpaFrame) []byte { return reply }, func(p *net.TCPConn) {
		<-begin
		p.Write(stream)
		p.CloseWrite()
		io.Copy(io.Discard, p)
	})
	if err != nil {
		close(begin)
		t.Fatal(err)
	}
	for i := range min(len(sends), 128) {
		if _, err := s.conn.PostRecv([]verbs.RecvWR{{ID: uint64(i), Buf: s.arena.Seg(windows+i*recvSize, recvSize)}}); err != nil {
			t.Fatal(err)
		}
	}
	at := 0
	segs := map[uint32]mem.Seg{}
	for key, e := range extents {
		seg := s.arena.Seg(at, int(e.hi-e.lo))
		at += seg.Len
		segs[key] = seg
		w := &window{c: s.conn}
		s.conn.memory.bind(w, key, seg, e.lo, verbs.RemoteWrite)
	}
	close(begin)
	for i, want := range sends {
		wc := s.next()
		if got := s.arena.Seg(windows+i*recvSize, wc.Len).Bytes(); !bytes.Equal(got, want) {
			t.Fatalf("message %d holds % x, want % x", i, got, want)
		}
	}
	// Later Writes may have overwritten earlier ones: the last word counts.
	image := map[uint32][]byte{}
	for key, seg := range segs {
		image[key] = make([]byte, seg.Len)
	}
	for i, h := range writes {
		copy(image[h.stag][h.to-extents[h.stag].lo:], bodies[i])
	}
	var wc [1]verbs.Completion
	if _, err := s.conn.Wait(testContext(t), wc[:]); !errors.Is(err, io.EOF) {
		t.Errorf("after the stream: %+v, %v", wc[0], err)
	}
	for key, seg := range segs {
		if !bytes.Equal(seg.Bytes(), image[key]) {
			t.Errorf("window %#x holds other bytes than were written", key)
		}
	}
}
