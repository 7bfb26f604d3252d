package krb5

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// ticket is one that a session key belongs to.
type ticket struct {
	client principal
	ticket messages.Ticket
	key    types.EncryptionKey
	end    time.Time
}

func (e *entry) parsed() (*ticket, error) {
	t := &ticket{client: e.client, key: e.key, end: e.end}
	if err := guarded(func() error { return t.ticket.Unmarshal(e.ticket) }); err != nil {
		return nil, fmt.Errorf("ticket for %s: %w", e.server, err)
	}
	return t, nil
}

// errReply: what a KDC has answered does not belong to the request, or is not what the KDC
// has made.
var errReply = errors.New("the reply of the KDC is not accepted")

// openReply decrypts the part of a KDC's reply that is for the client, and checks what AS
// and TGS exchange have in common (RFC 4120 sections 3.1.5 and 3.3.4): the nonce, that the
// ticket beside it is the one that it speaks of, a session key of a type that was asked for,
// and the times.
func openReply(rep *messages.KDCRepFields, body *messages.KDCReqBody, key types.EncryptionKey, usage uint32, now time.Time) (part messages.EncKDCRepPart, err error) {
	if err := decryptable(rep.EncPart); err != nil {
		return part, fmt.Errorf("%w: %w", errReply, err)
	}
	if rep.EncPart.EType != key.KeyType {
		return part, fmt.Errorf("%w: it is encrypted by a key of type %d, not %d", errReply, rep.EncPart.EType, key.KeyType)
	}
	plain, err := crypto.DecryptEncPart(rep.EncPart, key, usage)
	if err != nil {
		return part, fmt.Errorf("%w: %w: %w", errReply, errDecrypt, err)
	}
	if err := part.Unmarshal(plain); err != nil {
		return part, fmt.Errorf("%w: %w", errReply, err)
	}
	session, known := enctypes[part.Key.KeyType]
	asked := false
	for _, t := range body.EType {
		asked = asked || t == part.Key.KeyType
	}
	why := ""
	switch {
	case part.Nonce != body.Nonce:
		why = "it answers another request"
	case len(part.SName.NameString) == 0 || len(part.SName.NameString) > maxComponents:
		why = fmt.Sprintf("it names a service in %d parts", len(part.SName.NameString))
	case rep.Ticket.Realm != part.SRealm || !rep.Ticket.SName.Equal(part.SName):
		why = fmt.Sprintf("the ticket with it is for %s@%s, not for %s@%s",
			rep.Ticket.SName.PrincipalNameString(), rep.Ticket.Realm, part.SName.PrincipalNameString(), part.SRealm)
	case !known || !asked || len(part.Key.KeyValue) != session.keyLen:
		why = fmt.Sprintf("session key of encryption type %d and %d bytes", part.Key.KeyType, len(part.Key.KeyValue))
	case !part.EndTime.After(now):
		why = fmt.Sprintf("the ticket has ended at %s", part.EndTime.Local().Format(time.DateTime))
	case part.StartTime.Sub(now) > maxSkew:
		why = fmt.Sprintf("the ticket begins at %s", part.StartTime.Local().Format(time.DateTime))
	}
	if why != "" {
		return part, fmt.Errorf("%w: %s", errReply, why)
	}
	return part, nil
}

// errDecrypt: the key is not the one that something was encrypted by.
var errDecrypt = errors.New("the key does not decrypt it")

// Error is a failure to get or use a ticket, and what may help.
type Error struct {
	Err  error
	Hint string
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("%v (%s)", e.Err, e.Hint)
}

func (e *Error) Unwrap() error { return e.Err }

// Error codes of RFC 4120 section 7.5.9 that something is done about.
const (
	errClientUnknown  = 6
	errServiceUnknown = 7
	errNoEnctype      = 14
	errPreauth        = 24
	errPreauthNeeded  = 25
	errUnavailable    = 29
	errSkew           = 37
	errTooBig         = 52
)

// kdcError adds what may help to an error of an exchange with a realm's KDC.
func kdcError(conf *Conf, realm string, err error) error {
	code := int32(0)
	if refusal := (*messages.KRBError)(nil); errors.As(err, &refusal) {
		code = refusal.ErrorCode
	}
	hint := fmt.Sprintf("can the KDC of %s be reached, and does %s name it?", realm, conf.Path)
	switch {
	case code == errClientUnknown:
		hint = "the realm has no such client: is the keytab, or krb5_principal=, the right one?"
	case code == errServiceUnknown:
		hint = "the realm has no such service: mount by the host name that the server's keytab has, and see that [domain_realm] gives its realm"
	case code == errNoEnctype:
		hint = "KDC, server and " + conf.Path + " have no AES encryption type in common"
	case code == errPreauth, errors.Is(err, errDecrypt):
		hint = "the key is not the one that the KDC has: make the keytab anew"
	case code == errSkew:
		hint = "the clocks of this host and the KDC differ by more than five minutes"
	case code != 0:
		hint = "the log of the KDC may say more"
	case errors.Is(err, errReply), errors.Is(err, errMalformed):
		hint = "is that a KDC of " + realm + ", and is nobody on the way to it?"
	}
	return &Error{err, hint}
}

// Passes tells of an error of this package whether it may pass without anybody mending what it tells of: by itself, as no KDC of a
// realm answers; or, starting, if what is not there yet comes: a ticket, the file of a keytab.
func Passes(err error) (transient, starting bool) {
	var away *unanswered
	var of *Error
	switch {
	case !errors.As(err, &of):
		return false, false
	case errors.As(err, &away):
		var bad *BadAnswer
		return !errors.As(err, &bad), false
	}
	return false, errors.Is(err, errNoTicket) || errors.Is(err, os.ErrNotExist)
}

var errNoTicket = errors.New("no Kerberos ticket")
