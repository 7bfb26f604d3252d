package krb5

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"fmt"
	"hash"
	"sync"

	"github.com/jcmturner/gokrb5/v8/crypto"
)

// The encryption types that contexts may have: AES of RFC 3962 and of RFC 8009.
const (
	aes128SHA1   int32 = 17
	aes256SHA1   int32 = 18
	aes128SHA256 int32 = 19
	aes256SHA384 int32 = 20
)

// enctype is what distinguishes them.
type enctype struct {
	name   string
	keyLen int
	macLen int
	hash   func() hash.Hash
	// macOfCipher: the checksum of an encrypted message is over the initial vector and the
	// ciphertext (RFC 8009 section 5), and else over the plaintext (RFC 3961 section 5.3).
	macOfCipher bool
}

var enctypes = map[int32]enctype{
	aes128SHA1:   {"aes128-cts-hmac-sha1-96", 16, 12, sha1.New, false},
	aes256SHA1:   {"aes256-cts-hmac-sha1-96", 32, 12, sha1.New, false},
	aes128SHA256: {"aes128-cts-hmac-sha256-128", 16, 16, sha256.New, true},
	aes256SHA384: {"aes256-cts-hmac-sha384-192", 32, 24, sha512.New384, true},
}

// What the keys derived from a protocol key are for (RFC 3961 section 5.3).
const (
	forChecksum   = 0x99
	forEncryption = 0xAA
	forIntegrity  = 0x55
)

// derive makes the key of one purpose and key usage number.
func derive(etype int32, key []byte, usage uint32, purpose byte) ([]byte, error) {
	e, err := crypto.GetEtype(etype)
	if err != nil {
		return nil, err
	}
	return e.DeriveKey(key, append(binary.BigEndian.AppendUint32(nil, usage), purpose))
}

// mac is a truncated HMAC under one derived key. The hashes are kept, for their keys
// cost more than a short message.
type mac struct {
	len  int
	pool sync.Pool // of hash.Hash
}

func newMAC(t enctype, key []byte) *mac {
	m := &mac{len: t.macLen}
	m.pool.New = func() any { return hmac.New(t.hash, key) }
	return m
}

// append appends the checksum of all parts.
//
// It may write behind the checksum, as far as dst has capacity.
func (m *mac) append(dst []byte, parts ...[]byte) []byte {
	h := m.pool.Get().(hash.Hash)
	h.Reset()
	for _, p := range parts {
		h.Write(p)
	}
	n := len(dst) + m.len
	dst = h.Sum(dst)[:n]
	m.pool.Put(h)
	return dst
}

// verify reports whether sum is the checksum of all parts.
func (m *mac) verify(sum []byte, parts ...[]byte) bool {
	var buf [64]byte
	return hmac.Equal(sum, m.append(buf[:0], parts...))
}

// direction holds the derived keys of the tokens that one side makes.
type direction struct {
	sign      *mac
	seal      cipher.Block
	integrity *mac
}

func newDirection(etype int32, key []byte, signUsage, sealUsage uint32) (d direction, err error) {
	t := enctypes[etype]
	if t.keyLen == 0 {
		return d, fmt.Errorf("encryption type %d is not supported: AES is needed", etype)
	}
	if len(key) != t.keyLen {
		return d, fmt.Errorf("key of %d bytes for %s", len(key), t.name)
	}
	kc, err := derive(etype, key, signUsage, forChecksum)
	if err != nil {
		return d, err
	}
	ke, err := derive(etype, key, sealUsage, forEncryption)
	if err != nil {
		return d, err
	}
	ki, err := derive(etype, key, sealUsage, forIntegrity)
	if err != nil {
		return d, err
	}
	d = direction{sign: newMAC(t, kc), integrity: newMAC(t, ki)}
	d.seal, err = aes.NewCipher(ke)
	return d, err
}

// encrypt encrypts plain in place, which begins with the confounder, and appends the
// checksum to it.
func (d *direction) encrypt(plain []byte, macOfCipher bool) []byte {
	var buf [64]byte
	sum := buf[:0]
	if macOfCipher {
		encryptCTS(d.seal, plain)
		sum = d.integrity.append(sum, zeroIV[:], plain)
	} else {
		sum = d.integrity.append(sum, plain)
		encryptCTS(d.seal, plain)
	}
	return append(plain, sum...)
}

// decrypt is the inverse of encrypt; it fails if the checksum is wrong. b is longer than
// a block and the checksum.
func (d *direction) decrypt(b []byte, macOfCipher bool) ([]byte, bool) {
	at := len(b) - d.integrity.len
	text, sum := b[:at:at], b[at:]
	if macOfCipher {
		if !d.integrity.verify(sum, zeroIV[:], text) {
			return nil, false
		}
		decryptCTS(d.seal, text)
		return text, true
	}
	decryptCTS(d.seal, text)
	return text, d.integrity.verify(sum, text)
}
