package krb5

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// forger makes tickets of a service whose keys it has, and tokens with them.
type forger struct {
	acceptor *Acceptor
	keys     *keytab.Keytab
	now      time.Time
}

func newForger(t testing.TB) *forger {
	t.Helper()
	f := &forger{keys: keytab.New(), now: time.Now()}
	for e := range enctypes {
		for _, service := range []string{"nfs/server", "host/server"} {
			if err := f.keys.AddEntry(service, "TEST.LAN", "password", f.now, 1, e); err != nil {
				t.Fatal(err)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "keytab")
	b, err := f.keys.Marshal()
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err == nil {
		f.acceptor, err = NewAcceptor(path, "nfs")
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// forged is a token to be, which a test alters on its way to that.
type forged struct {
	service    string
	etype      int32
	client     types.PrincipalName
	flags      []int
	start, end time.Duration
	auth       types.Authenticator
	key        types.EncryptionKey
	req        messages.APReq
	token      []byte
}

// forge makes a good token, but for what alter does: it is called before each step, with
// its name.
func (f *forger) forge(t testing.TB, etype int32, alter func(step string, x *forged)) []byte {
	t.Helper()
	if alter == nil {
		alter = func(string, *forged) {}
	}
	x := &forged{service: "nfs/server", etype: etype, client: types.NewPrincipalName(1, "alice"), start: -time.Minute, end: time.Hour}
	alter("ticket", x)
	set := types.NewKrbFlags()
	for _, n := range x.flags {
		types.SetFlag(&set, n)
	}
	now := f.now.UTC().Truncate(time.Second)
	// gokrb5's own NewTicket makes keys of 24 bytes for type 20.
	x.key = types.EncryptionKey{KeyType: x.etype, KeyValue: bytes.Repeat([]byte{7}, enctypes[x.etype].keyLen)}
	part, err := asn1.Marshal(messages.EncTicketPart{Flags: set, Key: x.key, CRealm: "TEST.LAN", CName: x.client,
		AuthTime: now, StartTime: now.Add(x.start), EndTime: now.Add(x.end), RenewTill: now})
	if err != nil {
		t.Fatal(err)
	}
	ticket := messages.Ticket{TktVNO: 5, Realm: "TEST.LAN", SName: types.NewPrincipalName(2, x.service)}
	key, _, err := f.keys.GetEncryptionKey(ticket.SName, ticket.Realm, 1, x.etype)
	if err != nil {
		t.Fatal(err)
	}
	if ticket.EncPart, err = crypto.GetEncryptedData(asn1tools.AddASNAppTag(part, asnAppTag.EncTicketPart), key, keyusage.KDC_REP_TICKET, 1); err != nil {
		t.Fatal(err)
	}
	if x.auth, err = types.NewAuthenticator("TEST.LAN", types.NewPrincipalName(1, "alice")); err != nil {
		t.Fatal(err)
	}
	x.auth.CTime = now
	x.auth.Cksum = types.Checksum{CksumType: gssChecksum, Checksum: append(append([]byte{16, 0, 0, 0}, make([]byte, 16)...), flagMutual, 0, 0, 0)}
	alter("authenticator", x)
	if x.req, err = messages.NewAPReq(ticket, x.key, x.auth); err != nil {
		t.Fatal(err)
	}
	alter("request", x)
	b, err := x.req.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	x.token = appendFramed(nil, idRequest, b)
	alter("token", x)
	return x.token
}

func TestAcceptorAccepts(t *testing.T) {
	f := newForger(t)
	for e := range enctypes {
		for name, alter := range map[string]func(string, *forged){
			"without a subkey": nil,
			"with a subkey of the other family": func(step string, x *forged) {
				if step == "authenticator" {
					x.auth.SubKey = types.EncryptionKey{KeyType: 37 - e, KeyValue: make([]byte, enctypes[37-e].keyLen)}
				}
			},
			"from a host": func(step string, x *forged) {
				if x.client = types.NewPrincipalName(3, "host/client"); step == "authenticator" {
					x.auth.CName = x.client
				}
			},
		} {
			reply, tokens, who, err := f.acceptor.Accept(f.forge(t, e, alter))
			if err != nil {
				t.Errorf("type %d, %s: %v", e, name, err)
				continue
			}
			want := "alice@TEST.LAN"
			if name == "from a host" {
				want = "host/client@TEST.LAN"
			}
			if who.String() != want || tokens.MICLen() == 0 {
				t.Errorf("type %d, %s: %v", e, name, who)
			}
			if id, _, err := parseFramed(reply); err != nil || id != idReply {
				t.Errorf("type %d, %s: reply %#x, %v", e, name, id, err)
			}
		}
	}
}

func TestAcceptorRefuses(t *testing.T) {
	f := newForger(t)
	at := func(step string, g func(*forged)) func(string, *forged) {
		return func(s string, x *forged) {
			if s == step {
				g(x)
			}
		}
	}
	for name, tc := range map[string]struct {
		alter func(string, *forged)
		why   string
	}{
		"another service":       {at("ticket", func(x *forged) { x.service = "host/server" }), "want one for nfs"},
		"no service":            {at("request", func(x *forged) { x.req.Ticket.SName.NameString = nil }), "want one for nfs"},
		"unknown host":          {at("request", func(x *forged) { x.req.Ticket.SName.NameString = []string{"nfs", "other"} }), "key not found"},
		"unknown realm":         {at("request", func(x *forged) { x.req.Ticket.Realm = "OTHER" }), "key not found"},
		"old key":               {at("request", func(x *forged) { x.req.Ticket.EncPart.KVNO = 9 }), "key not found"},
		"DES ticket":            {at("request", func(x *forged) { x.req.Ticket.EncPart.EType = 3 }), "AES is needed"},
		"ticket of another key": {at("request", func(x *forged) { x.req.Ticket.EncPart.EType = 19 }), "integrity"},
		"altered ticket":        {at("request", func(x *forged) { x.req.Ticket.EncPart.Cipher[20] ^= 1 }), "integrity"},
		"short ticket":          {at("request", func(x *forged) { x.req.Ticket.EncPart.Cipher = make([]byte, 28) }), "28 bytes encrypted"},
		"ticket of later":       {at("ticket", func(x *forged) { x.start = time.Hour }), "not valid yet"},
		"invalid ticket":        {at("ticket", func(x *forged) { x.flags = []int{flags.Invalid} }), "not valid yet"},
		"expired ticket":        {at("ticket", func(x *forged) { x.end = -time.Second }), "expired"},
		"short authenticator":   {at("request", func(x *forged) { x.req.EncryptedAuthenticator.Cipher = make([]byte, 28) }), "28 bytes encrypted"},
		"authenticator's type":  {at("request", func(x *forged) { x.req.EncryptedAuthenticator.EType = 20 }), "authenticator of type 20"},
		"altered authenticator": {at("request", func(x *forged) { x.req.EncryptedAuthenticator.Cipher[20] ^= 1 }), "integrity"},
		"another's ticket":      {at("authenticator", func(x *forged) { x.auth.CName = types.NewPrincipalName(1, "mallory") }), "different clients"},
		"another realm":         {at("authenticator", func(x *forged) { x.auth.CRealm = "OTHER" }), "different clients"},
		"clock behind":          {at("authenticator", func(x *forged) { x.auth.CTime = x.auth.CTime.Add(-6 * time.Minute) }), "clock differs"},
		"clock ahead":           {at("authenticator", func(x *forged) { x.auth.CTime = x.auth.CTime.Add(6 * time.Minute) }), "clock differs"},
		"no mutual":             {at("authenticator", func(x *forged) { x.auth.Cksum.Checksum[20] = flagInteg }), "mutual"},
		"plain checksum":        {at("authenticator", func(x *forged) { x.auth.Cksum.CksumType = 16 }), "checksum of type"},
		"short checksum":        {at("authenticator", func(x *forged) { x.auth.Cksum.Checksum = x.auth.Cksum.Checksum[:23] }), "checksum of type"},
		"no checksum":           {at("authenticator", func(x *forged) { x.auth.Cksum = types.Checksum{} }), "checksum of type"},
		"RC4 subkey": {at("authenticator", func(x *forged) {
			x.auth.SubKey = types.EncryptionKey{KeyType: 23, KeyValue: make([]byte, 16)}
		}), "subkey of encryption type 23"},
		"an AP-REP":         {at("token", func(x *forged) { x.token[bytes.Index(x.token, mechanism)+len(mechanism)] = 2 }), "want an AP-REQ"},
		"another mechanism": {at("token", func(x *forged) { x.token[bytes.Index(x.token, mechanism)+5] ^= 1 }), errFraming.Error()},
		"longer than said":  {at("token", func(x *forged) { x.token = append(x.token, 0) }), errFraming.Error()},
	} {
		reply, tokens, _, err := f.acceptor.Accept(f.forge(t, aes256SHA1, tc.alter))
		if !errors.Is(err, ErrRefused) || tokens != nil || !strings.Contains(err.Error(), tc.why) {
			t.Errorf("%s: %v, want %q", name, err, tc.why)
		}
		if reply == nil {
			continue
		}
		id, msg, err := parseFramed(reply)
		var e messages.KRBError
		if err != nil || id != idError || e.Unmarshal(msg) != nil || !strings.Contains(e.EText, tc.why) {
			t.Errorf("%s: told %q, %v", name, e.EText, err)
		}
	}
	whole := f.forge(t, aes256SHA1, nil)
	for n := range whole {
		if _, tokens, _, err := f.acceptor.Accept(whole[:n]); !errors.Is(err, ErrRefused) || tokens != nil {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(whole), err)
		}
	}
}

func TestKeytabs(t *testing.T) {
	dir := t.TempDir()
	if _, err := NewAcceptor(filepath.Join(dir, "none"), "nfs"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	path := filepath.Join(dir, "keytab")
	kt := keytab.New()
	for service, e := range map[string]int32{"host/server": aes256SHA1, "nfs/server": 23} {
		if err := kt.AddEntry(service, "TEST.LAN", "password", time.Now(), 1, e); err != nil {
			t.Fatal(err)
		}
	}
	b, err := kt.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"keys of others": b, "garbage": []byte("garbage"), "no keys": b[:2]} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := NewAcceptor(path, "nfs"); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// FuzzAccept gives the acceptor what anybody may send it.
func FuzzAccept(f *testing.F) {
	g := newForger(f)
	for e := range enctypes {
		f.Add(g.forge(f, e, nil))
	}
	f.Fuzz(func(t *testing.T, token []byte) {
		reply, tokens, _, err := g.acceptor.Accept(token)
		if (err == nil) != (tokens != nil) || err != nil && !errors.Is(err, ErrRefused) {
			t.Fatalf("%x, %v", reply, err)
		}
	})
}
