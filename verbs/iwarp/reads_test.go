package iwarp

import (
	"bytes"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// TestPeerReadsInOrder answers Reads in the order of their requests, with sink
// and bytes as asked, in FPDUs with a good CRC.
func TestPeerReadsInOrder(t *testing.T) {
	v := newVictim(t, Config{}, verbs.RemoteRead)
	b := v.arena.Seg(windowAt, windowSize).Bytes()
	for i := range b {
		b[i] = byte(i * 3)
	}
	v.conn.crc = true // as if the peer had asked for it
	sizes := []uint32{5, 0, 70000, 4}
	for i, n := range sizes {
		v.write(readReq(uint32(i+1), n, v.key, v.addr+uint64(i)))
	}
	dead := make(chan error, 1)
	go runUntilDead(v, dead)
	for i, n := range sizes {
		var got []byte
		for last := false; !last; {
			h, body := v.readFPDU()
			if h.op != opReadResponse || h.stag != 77 || h.to != 0x7000+uint64(len(got)) {
				t.Fatalf("response %d goes on with %+v after %d bytes", i, h, len(got))
			}
			got = append(got, body...)
			last = h.last
		}
		if !bytes.Equal(got, b[i:i+int(n)]) {
			t.Errorf("response %d has %d bytes, or wrong ones", i, len(got))
		}
	}
	v.conn.Close()
	if err := <-dead; !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
}

// readFPDU reads one FPDU that this provider sent.
func (v *victim) readFPDU() (header, []byte) {
	v.t.Helper()
	b := make([]byte, 1<<16+16)
	read := func(lo, hi int) {
		for lo < hi {
			n, err := v.peer.Read(b[lo:hi])
			if err != nil {
				v.t.Fatal(err)
			}
			lo += n
		}
	}
	read(0, taggedSize)
	h, n, err := parseHeader(b[:taggedSize])
	if err == nil && n == 0 {
		read(taggedSize, untaggedSize)
		h, n, err = parseHeader(b[:untaggedSize])
	}
	if err != nil {
		v.t.Fatal(err)
	}
	end := lengthField + h.length + h.trailer()
	read(n, end)
	if v.conn.crc && crc32.Checksum(b[:end-crcSize], castagnoli) != trailerCRC(b[end-crcSize:]) {
		v.t.Fatalf("%+v has a bad CRC", h)
	}
	return h, b[n : n+h.payload()]
}

// TestReadyByRead: the zero-length Read by which a peer shows that it is ready,
// as negotiated, is answered even if the peer may have no Read outstanding.
func TestReadyByRead(t *testing.T) {
	v := newVictimOf(t, Config{CRC: true}, 0, mpaFrame{revision: 2, enhanced: true, ird: 8, peerToPeer: true, rtrRead: true})
	v.write(readReq(1, 0, 0, 0))
	v.write(fpdu(header{last: true, op: opSend, msn: 1}, bytes.Repeat([]byte{0xd0}, 4)))
	if wc := v.next(); wc.Op != verbs.OpRecv || wc.Len != 4 {
		t.Errorf("received %+v", wc)
	}
	if h, body := v.readFPDU(); h.op != opReadResponse || !h.last || len(body) != 0 {
		t.Errorf("the Read is answered with %+v", h)
	}
}

// TestTooManyReads: a peer that has more Reads outstanding than it was granted.
func TestTooManyReads(t *testing.T) {
	v := newVictim(t, Config{CRC: true}, verbs.RemoteRead)
	v.peer.SetReadBuffer(4096)
	v.conn.sock.SetWriteBuffer(4096)
	for msn := range uint32(40) {
		v.write(readReq(msn+1, windowSize, v.key, v.addr))
	}
	var got *violation
	if err := v.dies(); !errors.As(err, &got) || got.code != rdmapStream {
		t.Errorf("connection ended with %v", err)
	}
	v.intact(0, 0)
}

// postReads has the victim read n times 1000 bytes into its window's memory.
func (v *victim) postReads(n int) {
	v.t.Helper()
	for i := range n {
		v.post(verbs.SendWR{ID: uint64(i), Op: verbs.OpRead, RKey: 0xabc, Addr: uint64(i) << 32,
			Local: mem.Vec{v.arena.Seg(windowAt+i*1000, 1000)}})
	}
	// Any FPDU lets the accepting side send.
	v.write(fpdu(header{tagged: true, last: true, op: opWrite}, nil))
	c := v.conn
	c.rx.mu.Lock()
	defer c.rx.mu.Unlock()
	for !c.rx.open {
		moved, err := c.rx.step()
		if err == nil && !moved {
			err = c.rx.read()
		}
		if err != nil {
			v.t.Fatal(err)
		}
	}
}

// nextRequest reads one Read Request.
func (v *victim) nextRequest(i int) readRequest {
	v.t.Helper()
	h, body := v.readFPDU()
	if h.op != opReadRequest || h.qn != queueRead || h.msn != uint32(i+1) || h.mo != 0 || !h.last {
		v.t.Fatalf("request %d is %+v", i, h)
	}
	r := parseReadRequest(body)
	if r.length != 1000 || r.srcSTag != 0xabc || r.srcTO != uint64(i)<<32 {
		v.t.Fatalf("request %d asks for %+v", i, r)
	}
	return r
}

// respond is a piece of a Read Response.
func (r readRequest) respond(off uint64, body []byte, last bool) []byte {
	return fpdu(header{tagged: true, last: last, op: opReadResponse, stag: r.sinkSTag, to: r.sinkTO + off}, body)
}

// TestReadDepth: no more Reads are on the wire than the peer takes; an answer
// lets the next one go.
func TestReadDepth(t *testing.T) {
	const depth, n = 8, 20 // newVictim's peer takes 8
	v := newVictim(t, Config{CRC: true}, 0)
	v.postReads(n)
	for i := range n {
		v.conn.tx.mu.Lock()
		on := int(v.conn.tx.next)
		v.conn.tx.mu.Unlock()
		if on != min(n, i+depth) {
			t.Fatalf("after %d answers %d Reads were started", i, on)
		}
		r := v.nextRequest(i)
		body := bytes.Repeat([]byte{byte(i)}, 1000)
		v.write(r.respond(0, body[:400], false))
		v.write(r.respond(400, body[400:], true))
		if wc := v.next(); wc.ID != uint64(i) || wc.Op != verbs.OpRead {
			t.Fatalf("read %d completed as %+v", i, wc)
		}
		if !bytes.Equal(v.arena.Seg(windowAt+i*1000, 1000).Bytes(), body) {
			t.Fatalf("read %d placed other bytes", i)
		}
	}
}

func TestBadResponses(t *testing.T) {
	full := bytes.Repeat([]byte{0xd0}, 1001)
	for name, x := range map[string]struct {
		bytes func(r readRequest) []byte
		code  termCode
	}{
		"another sink": {func(r readRequest) []byte {
			r.sinkSTag++
			return r.respond(0, full[:1000], true)
		}, ddpInvalidSTag},
		"another offset": {func(r readRequest) []byte { return r.respond(4, full[:996], true) }, ddpBounds},
		"too long":       {func(r readRequest) []byte { return r.respond(0, full, true) }, ddpBounds},
		"too short":      {func(r readRequest) []byte { return r.respond(0, full[:999], true) }, ddpBounds},
		"without an end": {func(r readRequest) []byte { return r.respond(0, full[:1000], false) }, ddpBounds},
		"empty piece":    {func(r readRequest) []byte { return r.respond(0, nil, false) }, mpaFraming},
		"a gap": {func(r readRequest) []byte {
			return append(r.respond(0, full[:4], false), r.respond(8, full[:992], true)...)
		}, ddpBounds},
		"a Write inside": {func(r readRequest) []byte {
			return append(r.respond(0, full[:4], false), fpdu(header{tagged: true, last: true, op: opWrite}, nil)...)
		}, rdmapOpcode},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVictim(t, Config{CRC: true}, 0)
			v.postReads(1)
			v.write(x.bytes(v.nextRequest(0)))
			var got *violation
			if err := v.dies(); !errors.As(err, &got) || got.code != x.code {
				t.Errorf("connection ended with %v, want %v", err, x.code)
			}
			v.intact(0, 0)
			v.wantTerminate(x.code)
		})
	}
}
