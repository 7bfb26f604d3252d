package krb5

import (
	"bytes"
	"crypto/aes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Key usage numbers of RFC 4121 section 2.
const (
	acceptorSeal  = 22
	acceptorSign  = 23
	initiatorSeal = 24
	initiatorSign = 25
)

// Token ids and flags of RFC 4121 section 4.2.
const (
	micID  = 0x0404
	wrapID = 0x0504

	sentByAcceptor = 1
	sealed         = 2
	acceptorSubkey = 4

	tokenHeader = 16
	confounder  = aes.BlockSize
)

// ErrToken: a per-message token is not one that the peer made, or not for this message.
var ErrToken = errors.New("security token is not valid")

// Agreed is what an initiator and an acceptor have agreed on.
type Agreed struct {
	// Initiator says which of the two this end is.
	Initiator bool
	// Enctype and Key are those of the key that protects the messages: the acceptor's
	// subkey if AcceptorSubkey is set, and else the initiator's.
	Enctype        int32
	Key            []byte
	AcceptorSubkey bool
	// Seq is the number of this end's first token.
	Seq uint64
	// End is when the ticket ends.
	End time.Time
}

// Tokens makes and checks the tokens of one context (RFC 4121). It implements
// rpcsecgss.Tokens. The sequence numbers of the peer's tokens are not checked, because
// RPCSEC_GSS has its own (RFC 2203 section 5.3.3.1).
type Tokens struct {
	own, peer direction
	// flags are those of this end's tokens; the peer's differ in sentByAcceptor.
	flags       byte
	macOfCipher bool
	end         time.Time
	seq         atomic.Uint64
}

// NewTokens derives the keys of a context.
func NewTokens(a Agreed) (*Tokens, error) {
	initiator, err := newDirection(a.Enctype, a.Key, initiatorSign, initiatorSeal)
	if err != nil {
		return nil, err
	}
	acceptor, err := newDirection(a.Enctype, a.Key, acceptorSign, acceptorSeal)
	if err != nil {
		return nil, err
	}
	t := &Tokens{own: initiator, peer: acceptor, macOfCipher: enctypes[a.Enctype].macOfCipher, end: a.End}
	if !a.Initiator {
		t.own, t.peer, t.flags = acceptor, initiator, sentByAcceptor
	}
	if a.AcceptorSubkey {
		t.flags |= acceptorSubkey
	}
	t.seq.Store(a.Seq)
	return t, nil
}

// Expires implements rpcsecgss.Tokens.
func (t *Tokens) Expires() time.Time { return t.end }

// MICLen implements rpcsecgss.Tokens.
func (t *Tokens) MICLen() int { return tokenHeader + t.own.sign.len }

// WrapOverhead implements rpcsecgss.Tokens: header, confounder, the header once more
// inside, and the checksum.
func (t *Tokens) WrapOverhead() int {
	return tokenHeader + confounder + tokenHeader + t.own.integrity.len
}

// AppendMIC implements rpcsecgss.Tokens (RFC 4121 section 4.2.6.1).
func (t *Tokens) AppendMIC(dst, msg []byte) []byte {
	at := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, micID)
	dst = append(dst, t.flags, 0xff, 0xff, 0xff, 0xff, 0xff)
	dst = binary.BigEndian.AppendUint64(dst, t.next())
	return t.own.sign.append(dst, msg, dst[at:])
}

// VerifyMIC implements rpcsecgss.Tokens.
func (t *Tokens) VerifyMIC(msg, token []byte) error {
	if want := tokenHeader + t.peer.sign.len; len(token) != want {
		return fmt.Errorf("%w: MIC of %d bytes, want %d", ErrToken, len(token), want)
	}
	head, sum := token[:tokenHeader], token[tokenHeader:]
	if id := binary.BigEndian.Uint16(head); id != micID || head[2] != t.flags^sentByAcceptor {
		return fmt.Errorf("%w: MIC begins with %x", ErrToken, head[:3])
	}
	if !t.peer.sign.verify(sum, msg, head) {
		return fmt.Errorf("%w: wrong checksum", ErrToken)
	}
	return nil
}

// AppendWrap implements rpcsecgss.Tokens (RFC 4121 section 4.2.6.2): sealed, with EC and
// RRC of zero.
func (t *Tokens) AppendWrap(dst, msg []byte) []byte {
	dst = slices.Grow(dst, len(msg)+t.WrapOverhead())
	at := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, wrapID)
	dst = append(dst, t.flags|sealed, 0xff, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, t.next())
	body := len(dst)
	dst = dst[:body+confounder]
	rand.Read(dst[body:]) // never fails
	dst = append(dst, msg...)
	dst = append(dst, dst[at:at+tokenHeader]...)
	return dst[:body+len(t.own.encrypt(dst[body:], t.macOfCipher))]
}

// Unwrap implements rpcsecgss.Tokens.
func (t *Tokens) Unwrap(token []byte) ([]byte, error) {
	if min := tokenHeader + confounder + tokenHeader + t.peer.integrity.len; len(token) < min {
		return nil, fmt.Errorf("%w: sealed message of %d bytes, less than %d", ErrToken, len(token), min)
	}
	head, body := token[:tokenHeader], token[tokenHeader:]
	if id := binary.BigEndian.Uint16(head); id != wrapID || head[2] != t.flags^sentByAcceptor|sealed || head[3] != 0xff {
		return nil, fmt.Errorf("%w: sealed message begins with %x", ErrToken, head[:4])
	}
	extra := int(binary.BigEndian.Uint16(head[4:]))
	rotateLeft(body, int(binary.BigEndian.Uint16(head[6:]))%len(body))
	plain, ok := t.peer.decrypt(body, t.macOfCipher)
	if !ok {
		return nil, fmt.Errorf("%w: wrong checksum of a sealed message", ErrToken)
	}
	msg := plain[confounder : len(plain)-tokenHeader]
	// Only the header inside is authenticated. Its RRC is zero.
	inner := plain[len(plain)-tokenHeader:]
	if !bytes.Equal(inner[:6], head[:6]) || inner[6]|inner[7] != 0 || !bytes.Equal(inner[8:], head[8:]) {
		return nil, fmt.Errorf("%w: the two headers of a sealed message differ", ErrToken)
	}
	if extra > len(msg) {
		return nil, fmt.Errorf("%w: filler of %d bytes in %d", ErrToken, extra, len(msg))
	}
	return msg[:len(msg)-extra], nil
}

func (t *Tokens) next() uint64 { return t.seq.Add(1) - 1 }

// rotateLeft undoes the right rotation count of RFC 4121 section 4.2.5.
func rotateLeft(b []byte, n int) {
	if n == 0 {
		return
	}
	slices.Reverse(b[:n])
	slices.Reverse(b[n:])
	slices.Reverse(b)
}
