package krb5

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
)

// AES in CBC mode with ciphertext stealing and an initial vector of zero (RFC 3962
// section 5): the last two blocks change places, and the one that is then last is cut to
// what the message's last block has.

var zeroIV [aes.BlockSize]byte

// encryptCTS encrypts b in place. b is longer than one block.
func encryptCTS(block cipher.Block, b []byte) {
	last := (len(b) - 1) / aes.BlockSize * aes.BlockSize // where the last, perhaps partial block begins
	cipher.NewCBCEncrypter(block, zeroIV[:]).CryptBlocks(b[:last], b[:last])
	prev := b[last-aes.BlockSize : last]
	var tail [aes.BlockSize]byte
	n := copy(tail[:], b[last:])
	subtle.XORBytes(tail[:], tail[:], prev)
	block.Encrypt(tail[:], tail[:])
	copy(b[last:], prev[:n])
	copy(prev, tail[:])
}

// decryptCTS is the inverse of encryptCTS.
func decryptCTS(block cipher.Block, b []byte) {
	last := (len(b) - 1) / aes.BlockSize * aes.BlockSize
	before := zeroIV // the ciphertext in front of the last two blocks
	if last >= 2*aes.BlockSize {
		copy(before[:], b[last-2*aes.BlockSize:])
	}
	if head := b[:last-aes.BlockSize]; len(head) > 0 {
		cipher.NewCBCDecrypter(block, zeroIV[:]).CryptBlocks(head, head)
	}
	var tail, stolen [aes.BlockSize]byte
	swapped := b[last-aes.BlockSize : last]
	block.Decrypt(tail[:], swapped)
	copy(stolen[:], tail[:])
	n := copy(stolen[:], b[last:])
	subtle.XORBytes(tail[:], tail[:], stolen[:])
	copy(b[last:], tail[:n])
	block.Decrypt(swapped, stolen[:])
	subtle.XORBytes(swapped, swapped, before[:])
}
