package iwarp

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Layout of a victim's arena: receives, then a window, with guards around.
const (
	guard       = 4096
	victimRecv  = 1024
	victimRecvs = 4
	windowAt    = guard + victimRecv*victimRecvs + guard
	windowSize  = 128 << 10
	victimArena = windowAt + windowSize + guard
)

// victim is a side whose peer is a bare socket.
type victim struct {
	*side
	peer *net.TCPConn
	win  verbs.Window
	key  uint32
	addr uint64
}

// newVictim accepts a bare client that has read the reply to its request. With
// access it has a window bound.
func newVictim(t testing.TB, c Config, access verbs.Access) *victim {
	return newVictimOf(t, c, access, mpaFrame{revision: 2, enhanced: true, ird: 8, ord: 4})
}

// newVictimOf is newVictim for a client that sends req.
func newVictimOf(t testing.TB, c Config, access verbs.Access, req mpaFrame) *victim {
	v := &victim{side: newSide(t, c, victimArena)}
	l, err := v.dev.Listen(anyPort, verbs.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peer, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close() })
	v.peer = peer.(*net.TCPConn)
	v.write(appendMPA(nil, &req))
	ctx := testContext(t)
	r, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b := v.arena.Bytes()
	for i := range b {
		b[i] = 0xd0
	}
	var recv []verbs.RecvWR
	for i := range victimRecvs {
		recv = append(recv, verbs.RecvWR{ID: uint64(i), Buf: v.arena.Seg(guard+i*victimRecv, victimRecv)})
	}
	accepted, err := r.Accept(ctx, options(recv))
	if err != nil {
		t.Fatal(err)
	}
	v.conn = accepted.(*conn)
	if _, err := readMPA(v.peer, true); err != nil {
		t.Fatal(err)
	}
	if access != 0 {
		if v.win, err = v.conn.NewWindow(); err != nil {
			t.Fatal(err)
		}
		seg := v.arena.Seg(windowAt, windowSize)
		v.key = v.win.Next(seg)
		v.addr = v.win.Addr(seg)
		v.post(verbs.SendWR{Op: verbs.OpBind, Window: v.win, Local: mem.Vec{seg}, Access: access})
	}
	return v
}

func (v *victim) write(b []byte) {
	v.t.Helper()
	if _, err := v.peer.Write(b); err != nil {
		v.t.Fatal(err)
	}
}

// dies waits for the connection's end and returns the reason.
func (v *victim) dies() error {
	v.t.Helper()
	wc := make([]verbs.Completion, 4)
	for {
		if _, err := v.conn.Wait(testContext(v.t), wc); err != nil {
			var ce *verbs.ConnError
			if !errors.As(err, &ce) || ce.Remote != v.conn.RemoteAddr() {
				v.t.Errorf("connection ended with %v (%T)", err, err)
			}
			return err
		}
	}
}

// intact checks all memory but the given stretch.
func (v *victim) intact(off, n int) {
	v.t.Helper()
	for i, b := range v.arena.Bytes() {
		if b != 0xd0 && (i < off || i >= off+n) {
			v.t.Fatalf("byte %d of the arena was changed to %#x", i, b)
		}
	}
}

// fpdu is a whole FPDU with body; length comes from it.
func fpdu(h header, body []byte) []byte {
	h.length = h.size() - lengthField + len(body)
	b := append(h.append(nil), body...)
	return appendTrailer(b, h.length, crc32.Checksum(b, castagnoli), true)
}

func readReq(msn uint32, n uint32, key uint32, addr uint64) []byte {
	r := readRequest{sinkSTag: 77, sinkTO: 0x7000, length: n, srcSTag: key, srcTO: addr}
	return fpdu(header{last: true, op: opReadRequest, qn: queueRead, msn: msn}, r.append(nil))
}

// TestViolations breaks each rule once: the connection ends with that reason, the
// peer gets a Terminate message, and no byte is placed where it should not be.
func TestViolations(t *testing.T) {
	both := verbs.RemoteRead | verbs.RemoteWrite
	send := func(msn, mo uint32, last bool, n int) []byte {
		return fpdu(header{last: last, op: opSend, msn: msn, mo: mo}, bytes.Repeat([]byte{0xd0}, n))
	}
	write := func(v *victim, off int64, last bool, n int) []byte {
		return fpdu(header{tagged: true, last: last, op: opWrite, stag: v.key, to: v.addr + uint64(off)}, make([]byte, n))
	}
	for _, x := range []struct {
		name   string
		access verbs.Access
		bytes  func(v *victim) []byte
		code   termCode
	}{
		{"send without receive", 0, func(*victim) []byte {
			var b []byte
			for i := range victimRecvs + 1 {
				b = append(b, send(uint32(i+1), 0, true, 0)...)
			}
			return b
		}, ddpNoBuffer},
		{"send too long", 0, func(*victim) []byte { return send(1, 0, true, victimRecv+1) }, ddpTooLong},
		{"send too long in two", 0, func(*victim) []byte {
			return append(send(1, 0, false, victimRecv), send(1, victimRecv, true, 1)...)
		}, ddpTooLong},
		{"send MSN 0", 0, func(*victim) []byte { return send(0, 0, true, 1) }, ddpMSN},
		{"send MSN 2", 0, func(*victim) []byte { return send(2, 0, true, 1) }, ddpMSN},
		{"send offset", 0, func(*victim) []byte { return send(1, 4, true, 1) }, ddpOffset},
		{"send offset again", 0, func(*victim) []byte { return append(send(1, 0, false, 4), send(1, 0, true, 1)...) }, ddpOffset},
		{"send queue", 0, func(*victim) []byte { return fpdu(header{last: true, op: opSend, qn: 1, msn: 1}, nil) }, ddpQueue},
		{"send changes", 0, func(*victim) []byte {
			return append(send(1, 0, false, 4), fpdu(header{last: true, op: opSendSolicited, msn: 1, mo: 4}, nil)...)
		}, rdmapOpcode},
		{"empty middle", 0, func(*victim) []byte { return send(1, 0, false, 0) }, mpaFraming},
		{"invalidate nothing", 0, func(*victim) []byte {
			return fpdu(header{last: true, op: opSendInvalidate, inv: 12345, msn: 1}, nil)
		}, rdmapInvalidate},
		{"invalidate key 0", both, func(*victim) []byte {
			return fpdu(header{last: true, op: opSendSolicitedInvalidate, msn: 1}, nil)
		}, rdmapInvalidate},
		{"write to no key", 0, func(v *victim) []byte { return write(v, 0, true, 4) }, ddpInvalidSTag},
		{"write without right", verbs.RemoteRead, func(v *victim) []byte { return write(v, 0, true, 4) }, rdmapAccess},
		{"write before", both, func(v *victim) []byte { return write(v, -1, true, 4) }, ddpBounds},
		{"write after", both, func(v *victim) []byte { return write(v, windowSize-3, true, 4) }, ddpBounds},
		{"write wraps", both, func(v *victim) []byte {
			return fpdu(header{tagged: true, last: true, op: opWrite, stag: v.key, to: ^uint64(0) - 2}, make([]byte, 4))
		}, ddpTOWrap},
		{"write goes on elsewhere", both, func(v *victim) []byte {
			same := bytes.Repeat([]byte{0xd0}, 4)
			h := header{tagged: true, op: opWrite, stag: v.key, to: v.addr}
			return append(fpdu(h, same), write(v, 8, true, 4)...)
		}, ddpBounds},
		{"read without right", verbs.RemoteWrite, func(v *victim) []byte { return readReq(1, 4, v.key, v.addr) }, rdmapAccess},
		{"read of no key", 0, func(v *victim) []byte { return readReq(1, 4, 99, 0) }, rdmapInvalidSTag},
		{"read before", both, func(v *victim) []byte { return readReq(1, 4, v.key, v.addr-1) }, rdmapBounds},
		{"read after", both, func(v *victim) []byte { return readReq(1, windowSize+1, v.key, v.addr) }, rdmapBounds},
		{"read wraps", both, func(v *victim) []byte { return readReq(1, 4, v.key, ^uint64(0)-2) }, rdmapTOWrap},
		{"read of 4 GiB", both, func(v *victim) []byte { return readReq(1, ^uint32(0), v.key, v.addr) }, rdmapBounds},
		{"read MSN", both, func(v *victim) []byte { return readReq(2, 4, v.key, v.addr) }, ddpMSN},
		{"read queue", both, func(v *victim) []byte {
			return fpdu(header{last: true, op: opReadRequest, msn: 1}, make([]byte, readReqBody))
		}, ddpQueue},
		{"read with payload", both, func(v *victim) []byte {
			return fpdu(header{last: true, op: opReadRequest, qn: queueRead, msn: 1}, make([]byte, readReqBody+4))
		}, ddpTooLong},
		{"response to nothing", both, func(v *victim) []byte {
			return fpdu(header{tagged: true, last: true, op: opReadResponse, stag: v.key, to: v.addr}, make([]byte, 4))
		}, rdmapOpcode},
		{"terminate queue", 0, func(*victim) []byte { return fpdu(header{last: true, op: opTerminate, msn: 1}, make([]byte, 4)) }, ddpQueue},
		{"terminate size", 0, func(*victim) []byte {
			return fpdu(header{last: true, op: opTerminate, qn: queueTerminate, msn: 1}, make([]byte, ctlSize+1))
		}, ddpTooLong},
		{"opcode", 0, func(*victim) []byte { return fpdu(header{last: true, op: 8, msn: 1}, nil) }, rdmapOpcode},
		{"CRC of a small one", both, func(v *victim) []byte {
			b := write(v, 0, true, 4)
			b[len(b)-1] ^= 1
			return b
		}, mpaBadCRC},
		{"CRC of a large one", both, func(v *victim) []byte {
			b := fpdu(header{tagged: true, last: true, op: opWrite, stag: v.key, to: v.addr},
				bytes.Repeat([]byte{0xd0}, 3*rxBuffer))
			b[len(b)-1] ^= 1
			return b
		}, mpaBadCRC},
		{"noise", 0, func(*victim) []byte { return bytes.Repeat([]byte{0xff}, 64) }, ddpTaggedVersion},
	} {
		t.Run(x.name, func(t *testing.T) {
			v := newVictim(t, Config{CRC: true}, x.access)
			v.write(x.bytes(v))
			err := v.dies()
			var got *violation
			if !errors.As(err, &got) || got.code != x.code {
				t.Errorf("connection ended with %v, want %v", err, x.code)
			}
			v.intact(guard, 0)
			v.wantTerminate(x.code)
		})
	}
}

// wantTerminate reads to the Terminate message and the end of the stream.
func (v *victim) wantTerminate(code termCode) {
	v.t.Helper()
	b, err := io.ReadAll(v.peer)
	if err != nil {
		v.t.Fatal(err)
	}
	want := appendTerminate(nil, code, v.conn.crc)
	if !bytes.HasSuffix(b, want) {
		v.t.Errorf("peer was sent % x, want the end % x", b, want)
	}
}

// TestEveryTruncation ends a valid stream after each byte.
func TestEveryTruncation(t *testing.T) {
	v := newVictim(t, Config{CRC: true}, verbs.RemoteRead|verbs.RemoteWrite)
	stream := func(v *victim) []byte {
		var b []byte
		b = append(b, fpdu(header{last: true, op: opSend, msn: 1}, []byte("hello"))...)
		b = append(b, fpdu(header{tagged: true, last: true, op: opWrite, stag: v.key, to: v.addr}, make([]byte, 9))...)
		b = append(b, readReq(1, 4, v.key, v.addr)...)
		return append(b, appendTerminate(nil, rdmapStream, true)...)
	}
	n := len(stream(v))
	step := 1
	if testing.Short() {
		step = 7
	}
	for cut := 0; cut < n; cut += step {
		v := newVictim(t, Config{CRC: true}, verbs.RemoteRead|verbs.RemoteWrite)
		v.write(stream(v)[:cut])
		v.peer.CloseWrite()
		if err := v.dies(); !errors.Is(err, io.EOF) {
			t.Fatalf("cut to %d bytes: %v", cut, err)
		}
		for i, b := range v.arena.Bytes() {
			in := i >= guard && i < guard+5 || i >= windowAt && i < windowAt+9
			if b != 0xd0 && !in {
				t.Fatalf("cut to %d bytes: byte %d of the arena was changed", cut, i)
			}
		}
		v.conn.Close()
		v.peer.Close()
	}
	v.write(stream(v))
	var te *terminated
	if err := v.dies(); !errors.As(err, &te) || te.code != rdmapStream {
		t.Errorf("whole stream: %v", err)
	}
}

// TestByteByByte sends one byte at a time, and lets the context of Wait end
// between any two.
func TestByteByByte(t *testing.T) {
	for _, crc := range []bool{false, true} {
		v := newVictim(t, Config{CRC: crc}, verbs.RemoteWrite)
		var b []byte
		b = append(b, fpdu(header{op: opSendInvalidate, inv: v.key, msn: 1}, []byte("abcd"))...)
		b = append(b, fpdu(header{tagged: true, op: opWrite, stag: v.key, to: v.addr}, []byte("12345678"))...)
		b = append(b, fpdu(header{tagged: true, last: true, op: opWrite, stag: v.key, to: v.addr + 8}, []byte("9"))...)
		b = append(b, fpdu(header{last: true, op: opSendInvalidate, inv: v.key, msn: 1, mo: 4}, []byte("e"))...)
		wc := make([]verbs.Completion, 1)
		n := 0
		for i := range b {
			v.write(b[i : i+1])
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			k, err := v.conn.Wait(ctx, wc)
			cancel()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("after byte %d: %v", i, err)
			}
			n += k
		}
		if n == 0 {
			wc[0] = v.next()
		}
		if !wc[0].Invalidated || wc[0].InvalidatedKey != v.key || wc[0].Len != 5 {
			t.Errorf("received %+v", wc[0])
		}
		a := v.arena.Bytes()
		if string(a[guard:guard+5]) != "abcde" || string(a[windowAt:windowAt+9]) != "123456789" {
			t.Errorf("placed %q and %q", a[guard:guard+5], a[windowAt:windowAt+9])
		}
	}
}
