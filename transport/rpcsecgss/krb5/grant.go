package krb5

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/iana/patype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// maxRealms is how many realms' KDCs are asked on the way to a service.
const maxRealms = 8

// serviceTicket gets a ticket for a service of a realm by a ticket-granting ticket (RFC 4120
// section 3.3). On the way to another realm each KDC gives a ticket for the KDC of that
// realm or of one that is nearer; the KDC that should know the service may refer to the
// realm that does (RFC 6806 section 8).
func serviceTicket(ctx context.Context, conf *Conf, tgt *ticket, realm string, parts []string) (*ticket, error) {
	at := tgt.client.realm
	if realm == "" {
		realm = at
	}
	service := types.PrincipalName{NameType: nametype.KRB_NT_SRV_HST, NameString: parts}
	for asked := []string{at}; ; asked = append(asked, at) {
		want := service
		if at != realm {
			want = krbtgt(realm)
		}
		got, err := grant(ctx, conf, tgt, at, want)
		if err != nil {
			return nil, kdcError(conf, at, fmt.Errorf("ticket for %s@%s: %w", strings.Join(parts, "/"), realm, err))
		}
		if got.ticket.SName.Equal(service) {
			return got, nil
		}
		// It is one for another realm's KDC.
		next := got.ticket.SName.NameString[1]
		if slices.Contains(asked, next) || len(asked) == maxRealms {
			return nil, kdcError(conf, at, fmt.Errorf("%w: ticket for %s@%s: the KDC of %s refers to %s, after %s",
				errReply, strings.Join(parts, "/"), realm, at, next, strings.Join(asked, ", ")))
		}
		if at == realm {
			realm = next
		}
		tgt, at = got, next
	}
}

func krbtgt(realm string) types.PrincipalName {
	return types.PrincipalName{NameType: nametype.KRB_NT_SRV_INST, NameString: []string{"krbtgt", realm}}
}

// grant makes one exchange with the KDC of a realm, for which tgt is.
func grant(ctx context.Context, conf *Conf, tgt *ticket, realm string, want types.PrincipalName) (t *ticket, err error) {
	err = guarded(func() error {
		req, err := grantRequest(conf, tgt, realm, want, time.Now())
		if err != nil {
			return err
		}
		msg, err := req.Marshal()
		if err != nil {
			return err
		}
		a, err := conf.ask(ctx, realm, msg)
		if err != nil {
			return err
		}
		if a.refusal != nil {
			return a.refusal
		}
		t, err = acceptGrant(&req.ReqBody, tgt, a, time.Now())
		return err
	})
	return t, err
}

// grantRequest makes a TGS-REQ, with tgt and an authenticator over it (RFC 4120 section
// 5.4.1). The times that the ticket is good for are bounded by tgt's.
func grantRequest(conf *Conf, tgt *ticket, realm string, want types.PrincipalName, now time.Time) (*messages.TGSReq, error) {
	if len(tgt.ticket.SName.NameString) == 0 {
		return nil, fmt.Errorf("the ticket-granting ticket names no service") // gokrb5 takes the first part of the name
	}
	e, ok := enctypes[tgt.key.KeyType]
	if !ok || len(tgt.key.KeyValue) != e.keyLen {
		return nil, fmt.Errorf("session key of encryption type %d and %d bytes: AES is needed", tgt.key.KeyType, len(tgt.key.KeyValue))
	}
	var nonce [4]byte
	rand.Read(nonce[:]) // never fails
	req := &messages.TGSReq{KDCReqFields: messages.KDCReqFields{PVNO: iana.PVNO, MsgType: msgtype.KRB_TGS_REQ,
		ReqBody: messages.KDCReqBody{
			KDCOptions: types.NewKrbFlags(), Realm: realm, SName: want,
			Till:  now.UTC().Add(conf.LibDefaults.TicketLifetime),
			Nonce: int(binary.BigEndian.Uint32(nonce[:]) >> 1),
			EType: conf.LibDefaults.DefaultTGSEnctypeIDs,
		}}}
	types.SetFlag(&req.ReqBody.KDCOptions, flags.Canonicalize) // without it there are no referrals
	body, err := req.ReqBody.Marshal()
	if err != nil {
		return nil, err
	}
	etype, err := crypto.GetEtype(tgt.key.KeyType)
	if err != nil {
		return nil, err
	}
	sum, err := etype.GetChecksumHash(tgt.key.KeyValue, body, keyusage.TGS_REQ_PA_TGS_REQ_AP_REQ_AUTHENTICATOR_CHKSUM)
	if err != nil {
		return nil, err
	}
	auth, err := types.NewAuthenticator(tgt.client.realm, tgt.client.name())
	if err != nil {
		return nil, err
	}
	auth.Cksum = types.Checksum{CksumType: etype.GetHashID(), Checksum: sum}
	ap, err := messages.NewAPReq(tgt.ticket, tgt.key, auth)
	if err != nil {
		return nil, err
	}
	value, err := ap.Marshal()
	if err != nil {
		return nil, err
	}
	req.PAData = types.PADataSequence{{PADataType: patype.PA_TGS_REQ, PADataValue: value}}
	return req, nil
}

// acceptGrant checks the KDC's reply (RFC 4120 section 3.3.4): the ticket is the same
// client's, and for what was asked for, or for the KDC of another realm.
func acceptGrant(body *messages.KDCReqBody, tgt *ticket, a answer, now time.Time) (*ticket, error) {
	var rep messages.TGSRep
	if err := rep.Unmarshal(a.reply); err != nil {
		return nil, &BadAnswer{a.at, err.Error()}
	}
	if rep.CRealm != tgt.client.realm || !rep.CName.Equal(tgt.client.name()) {
		return nil, fmt.Errorf("%w: it is for %s@%s", errReply, rep.CName.PrincipalNameString(), rep.CRealm)
	}
	part, err := openReply(&rep.KDCRepFields, body, tgt.key, keyusage.TGS_REP_ENCPART_SESSION_KEY, now)
	if err != nil {
		return nil, err
	}
	name := part.SName.NameString
	referral := len(name) == 2 && name[0] == "krbtgt" && name[1] != ""
	if part.SRealm != body.Realm || !part.SName.Equal(body.SName) && !referral {
		return nil, fmt.Errorf("%w: the ticket is for %s@%s", errReply, part.SName.PrincipalNameString(), part.SRealm)
	}
	return &ticket{tgt.client, rep.Ticket, part.Key, part.EndTime}, nil
}
