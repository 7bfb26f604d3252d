package krb5

import (
	"bytes"
	"crypto/aes"
	"testing"

	"github.com/rdmafs/rdmafs/test/must"
)

// TestStealing holds AES-CTS to appendix B of RFC 3962.
func TestStealing(t *testing.T) {
	block, err := aes.NewCipher([]byte("chicken teriyaki"))
	if err != nil {
		t.Fatal(err)
	}
	const text = "I would like the General Gau's Chicken, please, and wonton soup."
	for n, want := range map[int]string{
		17: "c6353568f2bf8cb4d8a580362da7ff7f97",
		31: "fc00783e0efdb2c1d445d4c8eff7ed2297687268d6ecccc0c07b25e25ecfe5",
		32: "39312523a78662d5be7fcbcc98ebf5a897687268d6ecccc0c07b25e25ecfe584",
		47: "97687268d6ecccc0c07b25e25ecfe584b3fffd940c16a18c1b5549d2f838029e39312523a78662d5be7fcbcc98ebf5",
		48: "97687268d6ecccc0c07b25e25ecfe5849dad8bbb96c4cdc03bc103e1a194bbd839312523a78662d5be7fcbcc98ebf5a8",
		64: "97687268d6ecccc0c07b25e25ecfe58439312523a78662d5be7fcbcc98ebf5a84807efe836ee89a526730dbc2f7bc8409dad8bbb96c4cdc03bc103e1a194bbd8",
	} {
		b := []byte(text[:n])
		encryptCTS(block, b)
		if !bytes.Equal(b, must.Hex(t, want)) {
			t.Errorf("%d bytes: %x, want %s", n, b, want)
		}
		decryptCTS(block, b)
		if string(b) != text[:n] {
			t.Errorf("%d bytes decrypted: %q", n, b)
		}
	}
}

// TestSHA2 holds key derivation, encryption and checksums to appendix A of RFC 8009, whose
// key usage number is 2.
func TestSHA2(t *testing.T) {
	const text = "000102030405060708090a0b0c0d0e0f1011121314"
	for _, v := range []struct {
		etype                          int32
		key, kc, ke, ki, confounder    string
		sealed0, confounder6, sealed6  string
		confounder21, sealed21, sumOfK string
	}{
		{
			etype: aes128SHA256, key: "3705d96080c17728a0e800eab6e0d23c",
			kc: "b31a018a48f54776f403e9a396325dc3", ke: "9b197dd1e8c5609d6e67c3e37c62c72e", ki: "9fda0e56ab2d85e1569a688696c26a6c",
			confounder6:  "7bca285e2fd4130fb55b1a5c83bc5b24",
			sealed6:      "84d7f30754ed987bab0bf3506beb09cfb55402cef7e6877ce99e247e52d16ed4421dfdf8976c",
			confounder21: "a7a4e29a4728ce10664fb64e49ad3fac",
			sealed21:     "720f73b18d9859cd6ccb4346115cd336c70f58edc0c4437c5573544c31c813bce1e6d072c186b39a413c2f92ca9b8334a287ffcbfc",
			sumOfK:       "d78367186643d67b411cba9139fc1dee",
		},
		{
			etype: aes256SHA384, key: "6d404d37faf79f9df0d33568d320669800eb4836472ea8a026d16b7182460c52",
			kc: "ef5718be86cc84963d8bbb5031e9f5c4ba41f28faf69e73d", ke: "56ab22bee63d82d7bc5227f6773f8ea7a5eb1c825160c38312980c442e5c7e49",
			ki:           "69b16514e3cd8e56b82010d5c73012b622c4d00ffc23ed1f",
			confounder6:  "b80d3251c1f6471494256ffe712d0b9a",
			sealed6:      "4ed7b37c2bcac8f74f23c1cf07e62bc7b75fb3f637b9f559c7f664f69eab7b6092237526ea0d1f61cb20d69d10f2",
			confounder21: "763e65367e864f02f55153c7e3b58af1",
			sealed21:     "40013e2df58e8751957d2878bcd2d6fe101ccfd556cb1eae79db3c3ee86429f2b2a602ac86fef6ecb647d6295fae077a1feb517508d2c16b4192e01f62",
			sumOfK:       "45ee791567eefca37f4ac1e0222de80d43c3bfa06699672a",
		},
	} {
		key := must.Hex(t, v.key)
		for purpose, want := range map[byte]string{forChecksum: v.kc, forEncryption: v.ke, forIntegrity: v.ki} {
			if got, err := derive(v.etype, key, 2, purpose); err != nil || !bytes.Equal(got, must.Hex(t, want)) {
				t.Errorf("type %d, purpose %#x: key %x, %v; want %s", v.etype, purpose, got, err, want)
			}
		}
		d, err := newDirection(v.etype, key, 2, 2)
		if err != nil {
			t.Fatal(err)
		}
		if sum := d.sign.append(nil, must.Hex(t, text)); !bytes.Equal(sum, must.Hex(t, v.sumOfK)) {
			t.Errorf("type %d: checksum %x, want %s", v.etype, sum, v.sumOfK)
		}
		for _, m := range []struct {
			n                  int
			confounder, sealed string
		}{{6, v.confounder6, v.sealed6}, {21, v.confounder21, v.sealed21}} {
			plain := append(must.Hex(t, m.confounder), must.Hex(t, text[:2*m.n])...)
			got := d.encrypt(bytes.Clone(plain), true)
			if !bytes.Equal(got, must.Hex(t, m.sealed)) {
				t.Errorf("type %d, %d bytes: %x, want %s", v.etype, m.n, got, m.sealed)
			}
			if back, ok := d.decrypt(got, true); !ok || !bytes.Equal(back, plain) {
				t.Errorf("type %d, %d bytes decrypted: %x, %v", v.etype, m.n, back, ok)
			}
		}
	}
}

// TestSHA1 holds key derivation of the older family to the vectors that MIT's t_derive has
// for key usage number 2.
func TestSHA1(t *testing.T) {
	for _, v := range []struct {
		etype           int32
		key, kc, ke, ki string
	}{
		{aes128SHA1, "42263c6e89f4fc28b8df68ee09799f15", "34280a382bc92769b2da2f9ef066854b", "5b14fc4e250e14ddf9dccf1af6674f53", "4ed31063621684f09ae8d89991af3e8f"},
		{aes256SHA1, "fe697b52bc0d3ce14432ba036a92e65bbb52280990a2fa27883998d72af30161",
			"bfab388bdcb238e9f9c98d6a878304f04d30c82556375ac507a7a852790f4674", "c7cfd9cd75fe793a586a542d87e0d1396f1134a104bb1a9190b8c90ada3ddf37",
			"97151b4c76945063e2eb0529dc067d97d7bba90776d8126d91f34f3101aea8ba"},
	} {
		for purpose, want := range map[byte]string{forChecksum: v.kc, forEncryption: v.ke, forIntegrity: v.ki} {
			if got, err := derive(v.etype, must.Hex(t, v.key), 2, purpose); err != nil || !bytes.Equal(got, must.Hex(t, want)) {
				t.Errorf("type %d, purpose %#x: key %x, %v; want %s", v.etype, purpose, got, err, want)
			}
		}
	}
}
