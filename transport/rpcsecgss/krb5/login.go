package krb5

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/patype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// login asks the KDC for a ticket-granting ticket by a key of a keytab (RFC 4120 section
// 3.1): without proof first, and, if the KDC wants it, with the time encrypted by a key of
// the type that it names.
func login(ctx context.Context, conf *Conf, kt *keytab.Keytab, who principal) (*ticket, error) {
	l := &asExchange{conf: conf, kt: kt, who: who}
	var t *ticket
	err := guarded(func() (err error) {
		t, err = l.run(ctx)
		return err
	})
	if err != nil {
		return nil, kdcError(conf, who.realm, fmt.Errorf("login as %s: %w", who, err))
	}
	return t, nil
}

// asExchange is one login.
type asExchange struct {
	conf *Conf
	kt   *keytab.Keytab
	who  principal
	req  messages.ASReq
}

func (l *asExchange) run(ctx context.Context) (t *ticket, err error) {
	if l.req, err = messages.NewASReqForTGT(l.who.realm, l.conf.Config, l.who.name()); err != nil {
		return nil, err
	}
	// The name of the client is that of the key. No other is asked for, or taken.
	types.UnsetFlag(&l.req.ReqBody.KDCOptions, flags.Canonicalize)
	// The KDC may have keys that the keytab lacks.
	l.req.ReqBody.EType = slices.DeleteFunc(slices.Clone(l.req.ReqBody.EType), func(t int32) bool {
		_, _, err := l.key(t, 0)
		return err != nil
	})
	if len(l.req.ReqBody.EType) == 0 {
		return nil, fmt.Errorf("the keytab has no AES key of %s that %s permits", l.who, l.conf.Path)
	}
	a, err := l.send(ctx)
	if err == nil && a.refusal != nil && a.refusal.ErrorCode == errPreauthNeeded {
		if err = l.prove(a.refusal); err == nil {
			a, err = l.send(ctx)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case a.refusal != nil:
		return nil, a.refusal
	}
	return l.accept(a, time.Now())
}

func (l *asExchange) send(ctx context.Context) (answer, error) {
	msg, err := l.req.Marshal()
	if err != nil {
		return answer{}, err
	}
	return l.conf.ask(ctx, l.who.realm, msg)
}

// key is the client's key of a type, of a version or, if the keytab does not have that
// version or it is 0, the newest.
func (l *asExchange) key(etype int32, version int) (types.EncryptionKey, int, error) {
	if version != 0 {
		if key, v, err := l.kt.GetEncryptionKey(l.who.name(), l.who.realm, version, etype); err == nil {
			return key, v, nil
		}
	}
	return l.kt.GetEncryptionKey(l.who.name(), l.who.realm, 0, etype)
}

// prove adds the time, encrypted (RFC 4120 section 5.2.7.2), and what the KDC wants to have
// back (RFC 6113 section 5.2).
func (l *asExchange) prove(refusal *messages.KRBError) error {
	var methods types.PADataSequence
	if err := methods.Unmarshal(refusal.EData); err != nil {
		return fmt.Errorf("%w: what the KDC wants as proof: %w", errMalformed, err)
	}
	etype, err := l.proofType(methods)
	if err != nil {
		return err
	}
	key, version, err := l.key(etype, 0)
	if err != nil {
		return err
	}
	plain, err := types.GetPAEncTSEncAsnMarshalled()
	if err != nil {
		return err
	}
	sealed, err := crypto.GetEncryptedData(plain, key, keyusage.AS_REQ_PA_ENC_TIMESTAMP, version)
	if err != nil {
		return err
	}
	value, err := sealed.Marshal()
	if err != nil {
		return err
	}
	l.req.PAData = append(l.req.PAData, types.PAData{PADataType: patype.PA_ENC_TIMESTAMP, PADataValue: value})
	for _, m := range methods {
		if m.PADataType == patype.PA_FX_COOKIE {
			l.req.PAData = append(l.req.PAData, m)
			break
		}
	}
	return nil
}

// proofType is the first of the encryption types that the KDC names for the client's key
// (RFC 4120 section 5.2.7.5) of which there is one; a KDC that names none takes any.
func (l *asExchange) proofType(methods types.PADataSequence) (int32, error) {
	at := slices.IndexFunc(methods, func(m types.PAData) bool { return m.PADataType == patype.PA_ETYPE_INFO2 })
	if at < 0 {
		return l.req.ReqBody.EType[0], nil
	}
	info, err := methods[at].GetETypeInfo2()
	if err != nil {
		return 0, fmt.Errorf("%w: the encryption types that the KDC names: %w", errMalformed, err)
	}
	var named []int32
	for _, i := range info {
		if slices.Contains(l.req.ReqBody.EType, i.EType) {
			return i.EType, nil
		}
		named = append(named, i.EType)
	}
	return 0, fmt.Errorf("%w: the KDC names the encryption types %v for the key of %s, of which the keytab has none", errMalformed, named, l.who)
}

// accept checks the KDC's reply (RFC 4120 section 3.1.5).
func (l *asExchange) accept(a answer, now time.Time) (*ticket, error) {
	var rep messages.ASRep
	if err := rep.Unmarshal(a.reply); err != nil {
		return nil, &BadAnswer{a.at, err.Error()}
	}
	body := &l.req.ReqBody
	if rep.CRealm != l.who.realm || !rep.CName.Equal(body.CName) {
		return nil, fmt.Errorf("%w: it is for %s@%s", errReply, rep.CName.PrincipalNameString(), rep.CRealm)
	}
	if !slices.Contains(body.EType, rep.EncPart.EType) {
		return nil, fmt.Errorf("%w: it is encrypted by a key of type %d, which was not asked for", errReply, rep.EncPart.EType)
	}
	key, _, err := l.key(rep.EncPart.EType, rep.EncPart.KVNO)
	if err != nil {
		return nil, err
	}
	part, err := openReply(&rep.KDCRepFields, body, key, keyusage.AS_REP_ENCPART, now)
	if err != nil {
		return nil, err
	}
	if part.SRealm != body.Realm || !part.SName.Equal(body.SName) {
		return nil, fmt.Errorf("%w: the ticket is for %s@%s", errReply, part.SName.PrincipalNameString(), part.SRealm)
	}
	if !types.HostAddressesEqual(part.CAddr, body.Addresses) {
		return nil, fmt.Errorf("%w: the ticket is for other addresses", errReply)
	}
	if part.AuthTime.Sub(now).Abs() > maxSkew {
		return nil, errClock
	}
	return &ticket{l.who, rep.Ticket, part.Key, part.EndTime}, nil
}

var errClock = errors.New("the clocks of this host and the KDC differ by more than five minutes")
