package krb5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/rdmafs/rdmafs/transport/rpcsecgss"
)

var _ rpcsecgss.Tokens = (*Tokens)(nil)

var allTypes = []int32{aes128SHA1, aes256SHA1, aes128SHA256, aes256SHA384}

func testKey(etype int32) []byte {
	key := make([]byte, enctypes[etype].keyLen)
	for i := range key {
		key[i] = byte(17*i) + byte(etype)
	}
	return key
}

// pair is the two ends of a context.
func pair(t testing.TB, etype int32, subkey bool) (initiator, acceptor *Tokens) {
	t.Helper()
	make := func(first bool) *Tokens {
		k, err := NewTokens(Agreed{Initiator: first, Enctype: etype, Key: testKey(etype), AcceptorSubkey: subkey, Seq: 77, End: time.Unix(1e9, 0)})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	return make(true), make(false)
}

func message(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

// TestPeers has each end check what the other makes.
func TestPeers(t *testing.T) {
	for _, etype := range allTypes {
		for _, subkey := range []bool{false, true} {
			a, b := pair(t, etype, subkey)
			for _, way := range [][2]*Tokens{{a, b}, {b, a}} {
				from, to := way[0], way[1]
				for _, n := range []int{0, 1, 4, 15, 16, 17, 31, 32, 33, 1000, 1 << 17} {
					msg := message(n)
					mic := from.AppendMIC([]byte("in front"), msg)[8:]
					if len(mic) != from.MICLen() {
						t.Fatalf("type %d: MIC of %d bytes, not %d", etype, len(mic), from.MICLen())
					}
					if err := to.VerifyMIC(msg, mic); err != nil {
						t.Fatalf("type %d, %d bytes: %v", etype, n, err)
					}
					if err := from.VerifyMIC(msg, mic); !errors.Is(err, ErrToken) {
						t.Fatalf("type %d: own MIC: %v", etype, err)
					}
					wrap := from.AppendWrap([]byte("in front"), msg)[8:]
					if len(wrap) != n+from.WrapOverhead() {
						t.Fatalf("type %d: %d bytes for %d", etype, len(wrap), n)
					}
					if _, err := from.Unwrap(bytes.Clone(wrap)); !errors.Is(err, ErrToken) {
						t.Fatalf("type %d: own message: %v", etype, err)
					}
					if got, err := to.Unwrap(wrap); err != nil || !bytes.Equal(got, msg) {
						t.Fatalf("type %d, %d bytes: %v", etype, n, err)
					}
				}
			}
			if !a.Expires().Equal(time.Unix(1e9, 0)) {
				t.Error(a.Expires())
			}
		}
	}
}

// TestTampering flips each bit of each token, and cuts it at each length.
func TestTampering(t *testing.T) {
	for _, etype := range allTypes {
		for _, subkey := range []bool{false, true} {
			a, b := pair(t, etype, subkey)
			msg := message(43)
			mic, wrap := a.AppendMIC(nil, msg), a.AppendWrap(nil, msg)
			each(mic, func(what string, bad []byte) {
				if err := b.VerifyMIC(msg, bad); !errors.Is(err, ErrToken) {
					t.Errorf("type %d, MIC, %s: %v", etype, what, err)
				}
			})
			each(msg, func(what string, bad []byte) {
				if err := b.VerifyMIC(bad, mic); !errors.Is(err, ErrToken) {
					t.Errorf("type %d, message, %s: %v", etype, what, err)
				}
			})
			each(wrap, func(what string, bad []byte) {
				if _, err := b.Unwrap(bad); !errors.Is(err, ErrToken) {
					t.Errorf("type %d, sealed message, %s: %v", etype, what, err)
				}
			})
			other, _ := pair(t, etype, !subkey)
			if b.VerifyMIC(msg, other.AppendMIC(nil, msg)) == nil {
				t.Errorf("type %d: MIC with the flag for another key is accepted", etype)
			}
		}
	}
}

// each calls f with b changed in each bit, cut to each length, and longer by one.
func each(b []byte, f func(what string, bad []byte)) {
	for i := range 8 * len(b) {
		bad := bytes.Clone(b)
		bad[i/8] ^= 1 << (i % 8)
		f(fmt.Sprintf("bit %d flipped", i), bad)
	}
	for n := range b {
		f(fmt.Sprintf("cut to %d bytes", n), bytes.Clone(b[:n]))
	}
	f("longer", append(bytes.Clone(b), 0))
}

// TestRotation unwraps what Windows sends: rotated right, by 28 for instance, and with
// filler.
func TestRotation(t *testing.T) {
	for _, etype := range allTypes {
		for _, rrc := range []int{1, 12, 28, 500, 65535} {
			for _, filler := range []int{0, 16} {
				a, b := pair(t, etype, true)
				msg := message(100)
				head := make([]byte, tokenHeader)
				binary.BigEndian.PutUint16(head, wrapID)
				head[2], head[3] = sealed|acceptorSubkey, 0xff
				binary.BigEndian.PutUint16(head[4:], uint16(filler))
				plain := slices.Concat(make([]byte, confounder), msg, make([]byte, filler), head)
				body := a.own.encrypt(plain, a.macOfCipher)
				by := rrc % len(body)
				rotated := slices.Concat(body[len(body)-by:], body[:len(body)-by])
				binary.BigEndian.PutUint16(head[6:], uint16(rrc))
				if got, err := b.Unwrap(slices.Concat(head, rotated)); err != nil || !bytes.Equal(got, msg) {
					t.Errorf("type %d, rotated by %d, filler %d: %v", etype, rrc, filler, err)
				}
			}
		}
	}
}

// TestAgainstGokrb5 has another implementation check MICs and sealed messages, and checks
// its own.
func TestAgainstGokrb5(t *testing.T) {
	for _, etype := range allTypes {
		a, b := pair(t, etype, false)
		key := types.EncryptionKey{KeyType: etype, KeyValue: testKey(etype)}
		msg := message(77)

		var theirs gssapi.MICToken
		if err := theirs.Unmarshal(a.AppendMIC(nil, msg), false); err != nil {
			t.Fatal(err)
		}
		theirs.Payload = msg
		if ok, err := theirs.Verify(key, initiatorSign); !ok || theirs.SndSeqNum != 77 {
			t.Errorf("type %d: MIC %d refused: %v", etype, theirs.SndSeqNum, err)
		}
		answer := gssapi.MICToken{Flags: gssapi.MICTokenFlagSentByAcceptor, SndSeqNum: 5, Payload: msg}
		if err := answer.SetChecksum(key, acceptorSign); err != nil {
			t.Fatal(err)
		}
		if mic, err := answer.Marshal(); err != nil || a.VerifyMIC(msg, mic) != nil {
			t.Errorf("type %d: their MIC: %v", etype, a.VerifyMIC(msg, mic))
		}

		e, err := crypto.GetEtype(etype)
		if err != nil {
			t.Fatal(err)
		}
		wrap := a.AppendWrap(nil, msg)
		plain, err := e.DecryptMessage(key.KeyValue, wrap[tokenHeader:], initiatorSeal)
		if want := slices.Concat(msg, wrap[:tokenHeader]); err != nil || !bytes.Equal(plain, want) {
			t.Errorf("type %d: decrypted %x, %v, want %x", etype, plain, err, want)
		}
		_, body, err := e.EncryptMessage(key.KeyValue, slices.Concat(msg, wrap[:tokenHeader]), initiatorSeal)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := b.Unwrap(slices.Concat(wrap[:tokenHeader], body)); err != nil || !bytes.Equal(got, msg) {
			t.Errorf("type %d: their sealed message: %v", etype, err)
		}
	}
}

// TestSequence: each token has the next number, however many goroutines make them.
func TestSequence(t *testing.T) {
	a, _ := pair(t, aes256SHA1, true)
	for want := uint64(77); want < 80; want++ {
		if got := binary.BigEndian.Uint64(a.AppendMIC(nil, nil)[8:]); got != want {
			t.Errorf("token %d, want %d", got, want)
		}
	}
}

func TestKeysRefused(t *testing.T) {
	for _, a := range []Agreed{
		{Enctype: 23, Key: make([]byte, 16)},
		{Enctype: 0, Key: nil},
		{Enctype: aes256SHA1, Key: make([]byte, 16)},
		{Enctype: aes128SHA256, Key: make([]byte, 32)},
		{Enctype: aes128SHA1},
	} {
		if _, err := NewTokens(a); err == nil {
			t.Errorf("type %d with a key of %d bytes is accepted", a.Enctype, len(a.Key))
		}
	}
}

// FuzzUnwrap: no token panics, and none that was not made is accepted.
func FuzzUnwrap(f *testing.F) {
	_, acceptor := pair(f, aes256SHA384, true)
	for _, n := range []int{0, 20} {
		f.Add(acceptor.AppendWrap(nil, message(n)), message(n))
		f.Add(acceptor.AppendMIC(nil, message(n)), message(n))
	}
	f.Fuzz(func(t *testing.T, token, msg []byte) {
		initiator, _ := pair(t, aes128SHA1, true)
		if initiator.VerifyMIC(msg, token) == nil {
			t.Error("forged MIC")
		}
		if _, err := initiator.Unwrap(token); err == nil {
			t.Error("forged message")
		}
	})
}

func BenchmarkMIC(b *testing.B) {
	for _, n := range []int{100, 1 << 20} {
		for _, etype := range allTypes {
			b.Run(fmt.Sprintf("%d/%d", n, etype), func(b *testing.B) {
				a, _ := pair(b, etype, true)
				msg, dst := message(n), make([]byte, 0, 256)
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					a.AppendMIC(dst, msg)
				}
			})
		}
	}
}

func BenchmarkWrap(b *testing.B) {
	for _, etype := range allTypes {
		b.Run(fmt.Sprint(etype), func(b *testing.B) {
			a, _ := pair(b, etype, true)
			msg, dst := message(1<<20), make([]byte, 0, 1<<20+256)
			b.SetBytes(1 << 20)
			for b.Loop() {
				a.AppendWrap(dst, msg)
			}
		})
	}
}
