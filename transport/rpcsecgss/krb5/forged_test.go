package krb5

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/patype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// forgedKDC knows the client's keys, and makes replies that are right but for what alter does
// to them.
type forgedKDC struct {
	kt    *keytab.Keytab
	alter func(rep *messages.KDCRepFields, part *messages.EncKDCRepPart)
	// plain changes the part of a reply that is encrypted, when it is encoded.
	plain func(b []byte) []byte
	seen  []string // realm and service of each TGS-REQ
}

// testKeytab has keys of one client.
func testKeytab(t testing.TB) (*keytab.Keytab, principal) {
	t.Helper()
	kt := keytab.New()
	who := principal{1, "A.LAN", []string{"host", "client"}}
	for _, etype := range []int32{aes256SHA1, aes256SHA384} {
		if err := kt.AddEntry("host/client", "A.LAN", "secret", time.Unix(1, 0), 1, etype); err != nil {
			t.Fatal(err)
		}
	}
	return kt, who
}

// sessionKey is that of all tickets of a forgedKDC.
var sessionKey = types.EncryptionKey{KeyType: aes256SHA1, KeyValue: testKey(aes256SHA1)}

func made(name types.PrincipalName, realm string) messages.Ticket {
	return messages.Ticket{TktVNO: 5, Realm: realm, SName: name, EncPart: types.EncryptedData{EType: aes256SHA1, KVNO: 1, Cipher: make([]byte, 64)}}
}

func (k *forgedKDC) tgt(who principal) *ticket {
	return &ticket{who, made(krbtgt(who.realm), who.realm), sessionKey, time.Now().Add(time.Hour)}
}

// asRequest and tgsRequest are requests as this package makes them.
func asRequest(t testing.TB, conf *Conf, who principal) *messages.ASReq {
	t.Helper()
	req, err := messages.NewASReqForTGT(who.realm, conf.Config, who.name())
	if err != nil {
		t.Fatal(err)
	}
	return &req
}

func tgsRequest(t testing.TB, conf *Conf, tgt *ticket) *messages.TGSReq {
	t.Helper()
	req, err := grantRequest(conf, tgt, tgt.client.realm, types.PrincipalName{NameType: 3, NameString: []string{"nfs", "server"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// reply answers a request.
func (k *forgedKDC) reply(t testing.TB, req any) []byte {
	t.Helper()
	rep := messages.KDCRepFields{PVNO: 5, CRealm: "A.LAN", CName: types.PrincipalName{NameType: 1, NameString: []string{"host", "client"}}}
	var body *messages.KDCReqBody
	key, usage, tag := sessionKey, uint32(keyusage.TGS_REP_ENCPART_SESSION_KEY), asnAppTag.EncTGSRepPart
	switch req := req.(type) {
	case *messages.ASReq:
		rep.MsgType, body, usage, tag = 11, &req.ReqBody, keyusage.AS_REP_ENCPART, asnAppTag.EncASRepPart
		var err error
		if key, _, err = k.kt.GetEncryptionKey(rep.CName, rep.CRealm, 0, aes256SHA384); err != nil {
			t.Fatal(err)
		}
	case *messages.TGSReq:
		rep.MsgType, body = 13, &req.ReqBody
		k.seen = append(k.seen, body.Realm+" "+strings.Join(body.SName.NameString, "/"))
	}
	now := time.Now().UTC()
	part := messages.EncKDCRepPart{Key: sessionKey, LastReqs: []messages.LastReq{}, Nonce: body.Nonce, Flags: types.NewKrbFlags(),
		AuthTime: now, StartTime: now, EndTime: now.Add(time.Hour), SRealm: body.Realm, SName: body.SName}
	rep.Ticket = made(body.SName, body.Realm)
	rep.EncPart = types.EncryptedData{EType: key.KeyType, KVNO: 1}
	if k.alter != nil {
		k.alter(&rep, &part)
	}
	plain, err := asn1.Marshal(part)
	if err != nil {
		t.Fatal(err)
	}
	plain = asn1tools.AddASNAppTag(plain, tag)
	if k.plain != nil {
		plain = k.plain(plain)
	}
	if rep.EncPart.Cipher == nil {
		sealed, err := crypto.GetEncryptedData(plain, key, usage, 1)
		if err != nil {
			t.Fatal(err)
		}
		rep.EncPart.Cipher = sealed.Cipher
	}
	var b []byte
	if rep.MsgType == 11 {
		b, err = (&messages.ASRep{KDCRepFields: rep}).Marshal()
	} else {
		b, err = (&messages.TGSRep{KDCRepFields: rep}).Marshal()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// answer decodes a request and answers it.
func (k *forgedKDC) answer(t testing.TB, msg []byte) []byte {
	t.Helper()
	as, tgs := new(messages.ASReq), new(messages.TGSReq)
	if as.Unmarshal(msg) == nil {
		return framed(k.reply(t, as))
	}
	if err := tgs.Unmarshal(msg); err != nil {
		t.Errorf("a request that is none: %v", err)
		return nil
	}
	return framed(k.reply(t, tgs))
}

// TestForgedReplies: of a reply that is not the one to the request nothing is believed (RFC
// 4120 sections 3.1.5 and 3.3.4), though it is encrypted by the right key.
func TestForgedReplies(t *testing.T) {
	kt, who := testKeytab(t)
	k := &forgedKDC{kt: kt}
	s := (&scriptedKDC{stream: func(msg []byte) []byte { return k.answer(t, msg) }}).start(t)
	conf := confOf(t, map[string][]string{"A.LAN": {s.addr}}, "")
	logIn := func() error { _, err := login(t.Context(), conf, kt, who); return err }
	get := func() error {
		_, err := serviceTicket(t.Context(), conf, k.tgt(who), "", []string{"nfs", "server"})
		return err
	}
	if err := errors.Join(logIn(), get()); err != nil {
		t.Fatalf("what is right: %v", err)
	}
	other := types.PrincipalName{NameType: 1, NameString: []string{"nfs", "other"}}
	type rep = messages.KDCRepFields
	type part = messages.EncKDCRepPart
	for name, tc := range map[string]struct {
		alter func(r *rep, p *part)
		want  string
	}{
		"client":               {func(r *rep, p *part) { r.CName = other }, "it is for nfs/other@A.LAN"},
		"client of no parts":   {func(r *rep, p *part) { r.CName.NameString = []string{} }, "it is for"},
		"realm of the client":  {func(r *rep, p *part) { r.CRealm = "B.LAN" }, "it is for host/client@B.LAN"},
		"nonce":                {func(r *rep, p *part) { p.Nonce++ }, "answers another request"},
		"service":              {func(r *rep, p *part) { r.Ticket.SName, p.SName = other, other }, "the ticket is for nfs/other@A.LAN"},
		"service of no parts":  {func(r *rep, p *part) { r.Ticket.SName.NameString, p.SName.NameString = []string{}, []string{} }, "in 0 parts"},
		"realm of the service": {func(r *rep, p *part) { r.Ticket.Realm, p.SRealm = "B.LAN", "B.LAN" }, "@B.LAN"},
		"ticket":               {func(r *rep, p *part) { r.Ticket.SName = other }, "the ticket with it is for nfs/other@A.LAN"},
		"realm of the ticket":  {func(r *rep, p *part) { r.Ticket.Realm = "B.LAN" }, "@B.LAN, not for"},
		"session key of RC4":   {func(r *rep, p *part) { p.Key = types.EncryptionKey{KeyType: 23, KeyValue: make([]byte, 16)} }, "type 23"},
		"session key of none":  {func(r *rep, p *part) { p.Key.KeyValue = nil }, "and 0 bytes"},
		"type of session key":  {func(r *rep, p *part) { p.Key.KeyType = aes128SHA1 }, "type 17 and 32 bytes"},
		"ended":                {func(r *rep, p *part) { p.EndTime = time.Now().Add(-time.Second).UTC() }, "has ended"},
		"not yet":              {func(r *rep, p *part) { p.StartTime = time.Now().Add(time.Hour).UTC() }, "begins at"},
		"encryption by RC4":    {func(r *rep, p *part) { r.EncPart.EType = 23 }, "type 23"},
		"encryption by others": {func(r *rep, p *part) { r.EncPart.EType = aes128SHA256 }, "type 19"},
		"no bytes":             {func(r *rep, p *part) { r.EncPart.Cipher = make([]byte, 10) }, "10 bytes encrypted"},
		"another key":          {func(r *rep, p *part) { r.EncPart.Cipher = make([]byte, 100) }, "does not decrypt"},
	} {
		k.alter = tc.alter
		for what, err := range map[string]error{"login": logIn(), "ticket": get()} {
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %s: %v; want %q", what, name, err, tc.want)
			} else if !errors.Is(err, errReply) {
				t.Errorf("%s: %s: %v is no errReply", what, name, err)
			}
		}
	}
	k.alter = func(r *rep, p *part) { p.AuthTime = time.Now().Add(-time.Hour).UTC() }
	if err := logIn(); !errors.Is(err, errClock) {
		t.Errorf("another time: %v", err)
	}
	if err := get(); err != nil {
		t.Errorf("ticket by a login of an hour ago: %v", err)
	}
	k.alter = func(r *rep, p *part) {
		p.CAddr = types.HostAddresses{{AddrType: 2, Address: []byte{192, 0, 2, 1}}}
	}
	if err := logIn(); err == nil || !strings.Contains(err.Error(), "other addresses") {
		t.Errorf("addresses: %v", err)
	}
	k.alter = nil
	for name, plain := range map[string]func([]byte) []byte{
		"empty":     func([]byte) []byte { return nil },
		"cut short": func(b []byte) []byte { return b[:len(b)/2] },
		"no ASN.1":  func(b []byte) []byte { return slices.Repeat([]byte{0x30}, 50) },
	} {
		k.plain = plain
		if err := errors.Join(logIn()); err == nil {
			t.Errorf("%s: login", name)
		}
		if err := get(); err == nil {
			t.Errorf("%s: ticket", name)
		}
	}
}

// TestRefusals: each says what may help.
func TestRefusals(t *testing.T) {
	kt, who := testKeytab(t)
	info := func(b ...byte) types.PADataSequence {
		return types.PADataSequence{{PADataType: patype.PA_ETYPE_INFO2, PADataValue: b}}
	}
	for name, tc := range map[string]struct {
		sent []byte
		want string
	}{
		"no methods":        {refusalOf(t, errPreauthNeeded, nil), "malformed"},
		"no types":          {refusalOf(t, errPreauthNeeded, info(0x30, 0)), "names the encryption types [] for the key"},
		"types are no list": {refusalOf(t, errPreauthNeeded, info('x')), "malformed"},
		"RC4":               {refusalOf(t, errPreauthNeeded, info(0x30, 7, 0x30, 5, 0xa0, 3, 2, 1, 23)), "types [23]"},
		"proof is no use":   {refusalOf(t, errPreauthNeeded, info(0x30, 7, 0x30, 5, 0xa0, 3, 2, 1, 20)), "KDC_ERR_PREAUTH_REQUIRED"},
		"no such client":    {refusalOf(t, errClientUnknown, nil), "no such client"},
		"clock":             {refusalOf(t, errSkew, nil), "five minutes"},
		"key":               {refusalOf(t, errPreauth, nil), "make the keytab anew"},
		"no enctype":        {refusalOf(t, errNoEnctype, nil), "AES encryption type in common"},
		"client referral":   {refusalOf(t, errorcode.KDC_ERR_WRONG_REALM, nil), "log of the KDC"},
		"AS-REP of nothing": {[]byte{tagASRep, 2, 0x30, 0}, "malformed"},
		"TGS-REP":           {[]byte{tagTGSRep, 2, 0x30, 0}, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := (&scriptedKDC{stream: func([]byte) []byte { return framed(tc.sent) }}).start(t)
			_, err := login(t.Context(), confOf(t, map[string][]string{"A.LAN": {s.addr}}, ""), kt, who)
			var hint *Error
			if !errors.As(err, &hint) || hint.Hint == "" || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v; want %q, and a hint", err, tc.want)
			}
			if n := s.streams.Load(); n > 2 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// TestReferrals: KDCs refer from realm to realm, each once, and to no end.
func TestReferrals(t *testing.T) {
	_, who := testKeytab(t)
	k := &forgedKDC{}
	s := (&scriptedKDC{stream: func(msg []byte) []byte { return k.answer(t, msg) }}).start(t)
	all := map[string][]string{}
	for _, r := range "ABCDEFGHIJ" {
		all[string(r)+".LAN"] = []string{s.addr}
	}
	conf := confOf(t, all, "")
	for name, tc := range map[string]struct {
		realm string
		refer map[string]string
		want  string
		asked string
	}{
		"own":            {"", nil, "", "A.LAN nfs/server"},
		"other":          {"B.LAN", map[string]string{"A.LAN": "B.LAN"}, "", "A.LAN krbtgt/B.LAN, B.LAN nfs/server"},
		"by one between": {"C.LAN", map[string]string{"A.LAN": "B.LAN", "B.LAN": "C.LAN"}, "", "A.LAN krbtgt/C.LAN, B.LAN krbtgt/C.LAN, C.LAN nfs/server"},
		"referred":       {"", map[string]string{"A.LAN": "B.LAN", "B.LAN": "C.LAN"}, "", "A.LAN nfs/server, B.LAN nfs/server, C.LAN nfs/server"},
		"to itself":      {"", map[string]string{"A.LAN": "A.LAN"}, "refers to A.LAN, after A.LAN", "A.LAN nfs/server"},
		"in a ring":      {"", map[string]string{"A.LAN": "B.LAN", "B.LAN": "A.LAN"}, "refers to A.LAN, after A.LAN, B.LAN", ""},
		"away from it":   {"B.LAN", map[string]string{"A.LAN": "B.LAN", "B.LAN": "A.LAN"}, "refers to A.LAN", ""},
		"to nobody":      {"", map[string]string{"A.LAN": "NONE.LAN"}, "no KDC of NONE.LAN is known", ""},
		"through too many": {"", map[string]string{"A.LAN": "B.LAN", "B.LAN": "C.LAN", "C.LAN": "D.LAN", "D.LAN": "E.LAN", "E.LAN": "F.LAN", "F.LAN": "G.LAN", "G.LAN": "H.LAN", "H.LAN": "I.LAN"},
			"refers to I.LAN, after", ""},
	} {
		t.Run(name, func(t *testing.T) {
			k.seen = nil
			k.alter = func(r *messages.KDCRepFields, p *messages.EncKDCRepPart) {
				if to := tc.refer[p.SRealm]; to != "" {
					p.SName = krbtgt(to)
					r.Ticket.SName = p.SName
				}
			}
			got, err := serviceTicket(t.Context(), conf, k.tgt(who), tc.realm, []string{"nfs", "server"})
			if tc.want == "" && (err != nil || got.client.String() != who.String()) || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%v; want %q", err, tc.want)
			}
			if asked := strings.Join(k.seen, ", "); tc.asked != "" && asked != tc.asked || len(k.seen) > maxRealms {
				t.Errorf("asked %s; want %s", asked, tc.asked)
			}
		})
	}
}
