package iwarp

import (
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
)

// FuzzResponder throws bytes at an accepted connection with a window and
// receives: it ends, and nothing but those changes. Keys and addresses are
// random, so a plan patches the window's into the bytes at two places.
func FuzzResponder(f *testing.F) {
	h := header{tagged: true, last: true, op: opWrite}
	f.Add(fpdu(h, make([]byte, 100)), uint8(4), uint8(8))
	f.Add(fpdu(header{last: true, op: opSend, msn: 1}, []byte("hello")), uint8(255), uint8(255))
	f.Add(readReq(1, 1000, 0, 0), uint8(36), uint8(40))
	f.Add(fpdu(header{last: true, op: opSendSolicitedInvalidate, msn: 1}, []byte("x")), uint8(4), uint8(255))
	f.Add(appendTerminate(nil, ddpMSN, true), uint8(255), uint8(255))
	f.Fuzz(func(t *testing.T, b []byte, keyAt, addrAt uint8) {
		if len(b) > 1<<16 {
			return
		}
		v := newVictim(t, Config{}, verbs.RemoteRead|verbs.RemoteWrite)
		b = append([]byte(nil), b...)
		if k := int(keyAt); k+4 <= len(b) {
			b[k], b[k+1], b[k+2], b[k+3] = byte(v.key>>24), byte(v.key>>16), byte(v.key>>8), byte(v.key)
		}
		if a := int(addrAt); a+8 <= len(b) {
			for i := range 8 {
				b[a+i] += byte(v.addr >> (56 - 8*i))
			}
		}
		v.peer.Write(b)
		v.peer.CloseWrite()
		v.dies()
		for i, c := range v.arena.Bytes() {
			recv := i >= guard && i < guard+victimRecv*victimRecvs
			win := i >= windowAt && i < windowAt+windowSize
			if c != 0xd0 && !recv && !win {
				t.Fatalf("byte %d of the arena was changed", i)
			}
		}
		v.conn.Close()
	})
}
