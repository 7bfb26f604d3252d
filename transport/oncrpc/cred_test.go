package oncrpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// flavorTest is a flavor of authentication made for these tests.
const flavorTest = 99

// seqCred is a credential like that of RPCSEC_GSS: with a sequence number for
// each transmission, and a verifier over the header in both directions.
type seqCred struct {
	seq  uint32
	body transport.Protection
}

func (c *seqCred) Append(w *xdr.Writer, start int) {
	c.seq++
	w.Uint32(flavorTest)
	w.Uint32(4)
	w.Uint32(c.seq)
	sum := crc32.ChecksumIEEE(w.Bytes()[start:])
	w.Uint32(flavorTest)
	w.Uint32(4)
	w.Uint32(sum)
}

func (c *seqCred) Verify(flavor uint32, body []byte) error {
	if flavor != flavorTest || len(body) != 4 || binary.BigEndian.Uint32(body) != c.seq {
		return fmt.Errorf("verifier of flavor %d and %x for transmission %d", flavor, body, c.seq)
	}
	return nil
}

func (c *seqCred) Protection() transport.Protection { return c.body }

// sumBody protects a body by a checksum behind it and inverts its bytes.
type sumBody struct{}

func (sumBody) Protect(w *xdr.Writer, args []byte) {
	sum := crc32.ChecksumIEEE(args)
	for i := range args {
		args[i] = ^args[i]
	}
	w.Opaque(args)
	w.Uint32(sum)
}

func (sumBody) Unprotect(body []byte) ([]byte, error) {
	var r xdr.Reader
	r.Reset(body, nil)
	b, sum := r.Opaque(len(body)), r.Uint32()
	if err := r.End(); err != nil {
		return nil, err
	}
	for i := range b {
		b[i] = ^b[i]
	}
	if crc32.ChecksumIEEE(b) != sum {
		return nil, errors.New("wrong checksum")
	}
	return b, nil
}

func (sumBody) Overhead() int { return 8 }

// TestCredentialOfEachTransmission encodes one call twice: the sequence number
// and the verifier over the header differ, and a reply is valid only under the
// last one.
func TestCredentialOfEachTransmission(t *testing.T) {
	cred := &seqCred{}
	c := &transport.Call{Prog: 1, Vers: 2, Proc: 3, Cred: cred, Args: func(w *xdr.Writer) { w.Uint32(42) }}
	const header, verifier = 6*4 + 3*4, 3 * 4
	for seq := uint32(1); seq <= 2; seq++ {
		var w xdr.Writer
		w.Uint32(0xdead) // the message need not begin with the stream
		AppendCall(&w, 7, c)
		msg := w.Bytes()[4:]
		var r xdr.Reader
		r.Reset(msg[6*4:], nil)
		if f, n, s := r.Uint32(), r.Uint32(), r.Uint32(); f != flavorTest || n != 4 || s != seq {
			t.Errorf("credential %d, %d, %d, want sequence number %d", f, n, s, seq)
		}
		if f, n, sum := r.Uint32(), r.Uint32(), r.Uint32(); f != flavorTest || n != 4 || sum != crc32.ChecksumIEEE(msg[:header]) {
			t.Errorf("verifier %d, %d, %#x", f, n, sum)
		}
		if len(msg) != header+verifier+4 || r.Uint32() != 42 {
			t.Errorf("message of %d bytes: %x", len(msg), msg)
		}
	}
	reply := func(flavor, seq uint32) error {
		var w xdr.Writer
		for _, v := range []uint32{7, msgReply, msgAccepted, flavor, 4, seq, 0} {
			w.Uint32(v)
		}
		var r xdr.Reader
		r.Reset(w.Bytes(), nil)
		return DecodeReply(&r, 7, c)
	}
	c.Result = func(*xdr.Reader) error { panic("decoded") }
	checkProtocol(t, reply(flavorTest, 1), "verifier of the first transmission")
	checkProtocol(t, reply(transport.FlavorNone, 2), "verifier of another flavor")
	c.Result = nil
	if err := reply(flavorTest, 2); err != nil {
		t.Errorf("verifier of the second transmission: %v", err)
	}
}

// TestVerifierOfRefusals: a refusal that is accepted has a verifier, too, and is
// not believed without; one that is denied has none.
func TestVerifierOfRefusals(t *testing.T) {
	c := &transport.Call{Cred: &seqCred{seq: 5}}
	decode := func(words ...uint32) error {
		var w xdr.Writer
		for _, v := range words {
			w.Uint32(v)
		}
		var r xdr.Reader
		r.Reset(w.Bytes(), nil)
		return DecodeReply(&r, 7, c)
	}
	checkProtocol(t, decode(7, msgReply, msgAccepted, 0, 0, uint32(transport.ProcUnavail)), "PROC_UNAVAIL of somebody else")
	var refused *transport.RPCError
	if err := decode(7, msgReply, msgAccepted, flavorTest, 4, 5, uint32(transport.ProcUnavail)); !errors.As(err, &refused) || refused.Denied {
		t.Errorf("PROC_UNAVAIL: %v", err)
	}
	if err := decode(7, msgReply, msgDenied, authError, 13); !errors.As(err, &refused) || !refused.Auth || refused.Code != 13 {
		t.Errorf("RPCSEC_GSS_CREDPROBLEM: %v", err)
	}
}

// TestProtectedBodies has payloads travel in the protected body both ways.
func TestProtectedBodies(t *testing.T) {
	a, err := mem.NewArena(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	send, recv := mem.Vec{a.Seg(0, 3), a.Seg(100, 4)}, mem.Vec{a.Seg(200, 8)}
	send.CopyIn(0, []byte("payload"))
	c := &transport.Call{Cred: &seqCred{body: sumBody{}}, Send: []mem.Vec{send}, Recv: []mem.Vec{recv}, ReplyMax: 8,
		Args: func(w *xdr.Writer) { w.Uint32(1); w.Payload(0); w.Uint32(2) }}
	if c.Direct() {
		t.Error("direct placement is allowed")
	}
	if n := ReplyBound(c); n != MaxReplyHeader+8+8 {
		t.Errorf("reply bound %d", n)
	}
	var w xdr.Writer
	w.Reset(nil, c.Send)
	AppendCall(&w, 7, c)
	if len(w.Marks()) > 0 {
		t.Fatalf("marks %v", w.Marks())
	}
	const body = 6*4 + 3*4 + 3*4
	args, err := sumBody{}.Unprotect(bytes.Clone(w.Bytes()[body:]))
	want := append([]byte{0, 0, 0, 1, 0, 0, 0, 7}, "payload\x00\x00\x00\x00\x02"...)
	if err != nil || !bytes.Equal(args, want) {
		t.Errorf("arguments %q, %v; want %q", args, err, want)
	}

	w.Reset(nil, nil)
	for _, v := range []uint32{7, msgReply, msgAccepted, flavorTest, 4, 1, 0} {
		w.Uint32(v)
	}
	at := w.Len()
	sumBody{}.Protect(&w, append([]byte{0, 0, 0, 9, 0, 0, 0, 5}, "reply\x00\x00\x00"...))
	reply := bytes.Clone(w.Bytes())
	runs := 0
	c.Result = func(r *xdr.Reader) error {
		runs++
		if word, n := r.Uint32(), r.Payload(0); word != 9 || n != 5 || string(recv[0].Bytes()[:5]) != "reply" {
			return fmt.Errorf("%d, %d bytes, %q", word, n, recv[0].Bytes())
		}
		return r.End()
	}
	var r xdr.Reader
	r.Reset(reply, c.Recv)
	if err := DecodeReply(&r, 7, c); err != nil || runs != 1 {
		t.Errorf("%v; decoded %d times", err, runs)
	}
	if !bytes.Equal(reply, w.Bytes()) {
		t.Error("the message received was changed")
	}
	for i := at; i < len(reply); i++ {
		reply[i] ^= 1
		r.Reset(reply, c.Recv)
		checkProtocol(t, DecodeReply(&r, 7, c), "byte %d changed", i)
		reply[i] ^= 1
	}
	if runs != 1 {
		t.Errorf("results that cannot be trusted were decoded")
	}
}
