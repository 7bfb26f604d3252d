package krb5

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// FuzzReply gives an initiator what anybody may send it in place of the acceptor: none makes a context.
func FuzzReply(f *testing.F) {
	g := newForger(f)
	_, who := testKeytab(f)
	t := &ticket{who, made(types.PrincipalName{NameType: 2, NameString: []string{"nfs", "server"}}, "A.LAN"), sessionKey, time.Now().Add(time.Hour)}
	_, finish, err := initiate(t, time.Now())
	if err != nil {
		f.Fatal(err)
	}
	for e := range enctypes {
		if reply, _, _, err := g.acceptor.Accept(g.forge(f, e, nil)); err == nil {
			f.Add(reply)
		}
	}
	refusal, err := (&messages.KRBError{PVNO: 5, MsgType: 30, STime: time.Unix(1, 0), ErrorCode: 37, Realm: "A.LAN", SName: t.ticket.SName}).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(appendFramed(nil, idError, refusal))
	f.Add(appendFramed(nil, idReply, sealedReply(f, t, nil)))
	f.Fuzz(func(t *testing.T, reply []byte) {
		if tokens, err := finish(reply); err == nil || tokens != nil {
			t.Fatalf("a context: %v, %v", tokens, err)
		}
	})
}

// FuzzReplyPart gives an initiator what an acceptor that has the session key may send: a context has the times of the request, and
// a key of AES.
func FuzzReplyPart(f *testing.F) {
	_, who := testKeytab(f)
	t := &ticket{who, made(types.PrincipalName{NameType: 2, NameString: []string{"nfs", "server"}}, "A.LAN"), sessionKey, time.Now().Add(time.Hour)}
	now := time.Unix(1_700_000_000, 123456000)
	_, finish, err := initiate(t, now)
	if err != nil {
		f.Fatal(err)
	}
	for _, part := range []messages.EncAPRepPart{
		{CTime: now.UTC().Truncate(time.Second), Cusec: 123456, SequenceNumber: 1},
		{CTime: now.UTC().Truncate(time.Second), Cusec: 123456, Subkey: types.EncryptionKey{KeyType: aes128SHA1, KeyValue: testKey(aes128SHA1)}, SequenceNumber: 1},
		{CTime: now.UTC().Truncate(time.Second), Cusec: 123456, Subkey: types.EncryptionKey{KeyType: aes128SHA1, KeyValue: []byte{1}}, SequenceNumber: 1},
	} {
		b, err := asn1.Marshal(part)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(asn1tools.AddASNAppTag(b, asnAppTag.EncAPRepPart))
	}
	f.Fuzz(func(test *testing.T, part []byte) {
		tokens, err := finish(appendFramed(nil, idReply, sealedReply(test, t, part)))
		if (tokens == nil) != (err != nil) || err != nil && !errors.Is(err, ErrRefused) && !errors.Is(err, errMalformed) {
			test.Fatalf("%v, %v", tokens, err)
		}
	})
}

// sealedReply is an AP-REP with a part that the session key of tk has encrypted.
func sealedReply(t testing.TB, tk *ticket, part []byte) []byte {
	t.Helper()
	sealed, err := crypto.GetEncryptedData(part, tk.key, keyusage.AP_REP_ENCPART, 0)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := asn1.Marshal(messages.APRep{PVNO: iana.PVNO, MsgType: msgtype.KRB_AP_REP, EncPart: sealed})
	if err != nil {
		t.Fatal(err)
	}
	return asn1tools.AddASNAppTag(msg, asnAppTag.APREP)
}

// FuzzConf: no file of krb5.conf(5) makes the daemon panic, and what it says of encryption is AES.
func FuzzConf(f *testing.F) {
	f.Add([]byte("[libdefaults]\n default_realm = A.LAN\n default_tkt_enctypes = aes256-cts rc4-hmac\n dns_lookup_kdc = no\n[realms]\n A.LAN = {\n  kdc = localhost:88\n }\n[domain_realm]\n .a.lan = A.LAN\n"))
	f.Add([]byte("[realms]\n A = {\n  kdc = {\n } }\n}\n"))
	f.Add([]byte("[libdefaults]\n ticket_lifetime = -1d\n clockskew = x\n=\n[\n]"))
	f.Add([]byte("[realms]\n = {\n  v4_name_convert = {\n"))
	path := filepath.Join(f.TempDir(), "krb5.conf")
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.Contains(b, []byte("include")) {
			t.Skip() // other files are not this test's
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := LoadConf(path)
		if err != nil {
			return
		}
		for _, e := range append(c.LibDefaults.DefaultTGSEnctypeIDs, c.LibDefaults.DefaultTktEnctypeIDs...) {
			if _, aes := enctypes[e]; !aes {
				t.Errorf("encryption type %d", e)
			}
		}
		c.Realm("server.a.lan")
		c.Realm("")
	})
}
