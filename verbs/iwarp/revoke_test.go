package iwarp

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// poison fills the window's memory, which the owner got back.
func (v *victim) poison() {
	b := v.arena.Seg(windowAt, windowSize).Bytes()
	for i := range b {
		b[i] = 0x5a
	}
}

func (v *victim) wantPoison() {
	v.t.Helper()
	for i, b := range v.arena.Seg(windowAt, windowSize).Bytes() {
		if b != 0x5a {
			v.t.Fatalf("byte %d of the window was changed to %#x after it was revoked", i, b)
		}
	}
}

// revocations are the ways to take a window back.
var revocations = map[string]func(v *victim){
	"free": func(v *victim) { v.win.Free() },
	"local invalidate": func(v *victim) {
		v.post(verbs.SendWR{ID: 5, Op: verbs.OpLocalInvalidate, Signaled: true, RKey: v.key})
		var wc [1]verbs.Completion
		_, err := v.conn.Wait(testContext(v.t), wc[:])
		var ce *verbs.ConnError
		if !errors.As(err, &ce) && wc[0].ID != 5 {
			v.t.Errorf("invalidate completed as %+v, %v", wc[0], err)
		}
	},
	"close": func(v *victim) { v.conn.Close() },
}

// runUntilDead waits with a reason for the end.
func runUntilDead(v *victim, out chan<- error) {
	wc := make([]verbs.Completion, 4)
	for {
		if _, err := v.conn.Wait(testContext(v.t), wc); err != nil {
			out <- err
			return
		}
	}
}

// TestRevokeUnderStalledWrite: the peer stops in the middle of a Write. Revoking
// the window does not wait for it, and what it sends later is not placed.
func TestRevokeUnderStalledWrite(t *testing.T) {
	for name, revoke := range revocations {
		t.Run(name, func(t *testing.T) {
			v := newVictim(t, Config{CRC: true}, verbs.RemoteWrite)
			b := fpdu(header{tagged: true, last: true, op: opWrite, stag: v.key, to: v.addr}, make([]byte, 60000))
			v.write(b[:30000])
			// Place what has come: the context ends once that is done.
			v.placedUpTo(1000)
			revoke(v)
			v.poison()
			v.peer.Write(b[30000:]) // a closed connection may refuse it
			dead := make(chan error, 1)
			go runUntilDead(v, dead)
			err := <-dead
			if name == "close" {
				if !errors.Is(err, verbs.ErrClosed) {
					t.Errorf("closed connection ended with %v", err)
				}
			} else if vio := (*violation)(nil); !errors.As(err, &vio) || vio.code != ddpInvalidSTag {
				t.Errorf("connection ended with %v", err)
			}
			v.wantPoison()
		})
	}
}

// placedUpTo runs the receive side until byte n of the window has changed.
func (v *victim) placedUpTo(n int) {
	v.t.Helper()
	c := v.conn
	c.rx.mu.Lock()
	defer c.rx.mu.Unlock()
	for v.arena.Bytes()[windowAt+n] == 0xd0 {
		moved, err := c.rx.step()
		if err == nil && !moved {
			err = c.rx.read()
		}
		if err != nil {
			v.t.Fatal(err)
		}
	}
}

// TestRevokeUnderStalledRead: the peer requests much and reads nothing from the
// socket. No byte written to the memory after the revocation is sent.
func TestRevokeUnderStalledRead(t *testing.T) {
	for name, revoke := range revocations {
		t.Run(name, func(t *testing.T) {
			v := newVictim(t, Config{CRC: true}, verbs.RemoteRead)
			// More than any socket buffer holds: the same window again and
			// again, as many times as the depth allows.
			v.peer.SetReadBuffer(4096)
			v.conn.sock.SetWriteBuffer(4096)
			for msn := range uint32(4) {
				v.write(readReq(msn+1, windowSize, v.key, v.addr))
			}
			v.stalled()
			revoke(v)
			v.poison()
			dead := make(chan error, 1)
			go runUntilDead(v, dead)
			var got bytes.Buffer
			got.ReadFrom(v.peer) // ends with the stream, or with its reset
			if bytes.Contains(got.Bytes(), bytes.Repeat([]byte{0x5a}, 16)) {
				t.Error("memory was read after it was revoked")
			}
			if err := <-dead; name == "close" != errors.Is(err, verbs.ErrClosed) {
				t.Errorf("connection ended with %v", err)
			}
			v.wantPoison()
		})
	}
}

// stalled runs the receive side until the wire is full.
func (v *victim) stalled() {
	v.t.Helper()
	c := v.conn
	c.rx.mu.Lock()
	defer c.rx.mu.Unlock()
	for c.rx.readMSN != 5 {
		moved, err := c.rx.step()
		if err == nil && !moved {
			err = c.rx.read()
		}
		if err != nil {
			v.t.Fatal(err)
		}
	}
	for full := false; !full; runtime.Gosched() {
		// runTransmit goes on where Wait met a full socket, and stays there.
		c.tx.mu.Lock()
		full = c.tx.busy || c.tx.stalled
		c.tx.mu.Unlock()
	}
}

// TestNoSendBeforePeer: the accepting side keeps what it posts until the first
// FPDU of the dialing side has come in.
func TestNoSendBeforePeer(t *testing.T) {
	v := newVictim(t, Config{CRC: true}, 0)
	copy(v.arena.Bytes(), "after you")
	v.post(verbs.SendWR{ID: 3, Op: verbs.OpSend, Signaled: true, Local: mem.Vec{v.arena.Seg(0, 9)}})
	v.conn.tx.mu.Lock()
	taken := v.conn.tx.next
	v.conn.tx.mu.Unlock()
	if taken != 0 || v.conn.cq.n.Load() != 0 {
		t.Error("a Send left before the peer's first FPDU")
	}
	v.write(fpdu(header{tagged: true, last: true, op: opWrite}, nil))
	if wc := v.next(); wc.ID != 3 {
		t.Errorf("completed %+v", wc)
	}
	if h, body := v.readFPDU(); h.op != opSend || string(body) != "after you" {
		t.Errorf("peer was sent %+v", h)
	}
}
