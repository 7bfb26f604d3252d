package krb5

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/rdmafs/rdmafs/transport/rpcsecgss"
)

// maxSkew is by how much clocks may differ (RFC 4120 section 8.2).
const maxSkew = 5 * time.Minute

// ErrRefused: a token of context creation does not prove who sent it.
var ErrRefused = errors.New("not authenticated")

// Acceptor makes contexts from the tokens of initiators that have a ticket for a service.
// It implements rpcsecgss.Acceptor. Its methods may be called from any goroutine.
//
// It keeps no cache of authenticators: who sends a recorded token again gets a context of
// which only the ticket's owner has the keys. A client that has lost the answer may so
// send its token again. Addresses in tickets are not looked at.
type Acceptor struct {
	keys    keyFile
	service string
	realm   string
	now     func() time.Time
}

// NewAcceptor returns an Acceptor for principals service/HOST whose keys are in the
// keytab at path, which is read again when it has changed.
func NewAcceptor(path, service string) (*Acceptor, error) {
	a := &Acceptor{keys: keyFile{path: path}, service: service, now: time.Now}
	kt, err := a.keys.load()
	if err != nil {
		return nil, err
	}
	for _, e := range kt.Entries {
		if _, aes := enctypes[e.Key.KeyType]; aes && len(e.Principal.Components) > 0 && e.Principal.Components[0] == service {
			a.realm = e.Principal.Realm
			return a, nil
		}
	}
	return nil, fmt.Errorf("keytab %s has no AES key of a service %s", path, service)
}

// Realm is that of the service.
func (a *Acceptor) Realm() string { return a.realm }

// Accept implements rpcsecgss.Acceptor (RFC 4121 section 4.1): token is an AP-REQ, and the
// reply an AP-REP with a subkey of the acceptor's choice.
func (a *Acceptor) Accept(token []byte) (reply []byte, t rpcsecgss.Tokens, who rpcsecgss.Principal, err error) {
	err = guarded(func() (err error) {
		reply, t, who, err = a.accept(token)
		return err
	})
	if errors.Is(err, errMalformed) {
		return nil, nil, who, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return reply, t, who, err
}

func (a *Acceptor) accept(token []byte) (reply []byte, t rpcsecgss.Tokens, who rpcsecgss.Principal, err error) {
	req, err := parseRequest(token)
	if err != nil {
		return nil, nil, who, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err := a.check(req); err != nil {
		return a.explain(req, err), nil, who, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	ticket, auth := &req.Ticket.DecryptedEncPart, &req.Authenticator
	base := auth.SubKey
	if len(base.KeyValue) == 0 {
		base = ticket.Key
	}
	e, ok := enctypes[base.KeyType]
	if !ok {
		return nil, nil, who, fmt.Errorf("%w: subkey of encryption type %d", ErrRefused, base.KeyType)
	}
	sub := types.EncryptionKey{KeyType: base.KeyType, KeyValue: make([]byte, e.keyLen)}
	rand.Read(sub.KeyValue) // never fails
	var seq [4]byte
	rand.Read(seq[:])
	// MIT's releases before 1.18 take numbers of 30 bits best.
	own := binary.BigEndian.Uint32(seq[:]) & (1<<30 - 1)
	if reply, err = makeReply(ticket.Key, auth, sub, own); err != nil {
		return nil, nil, who, err
	}
	tokens, err := NewTokens(Agreed{Enctype: sub.KeyType, Key: sub.KeyValue, AcceptorSubkey: true, Seq: uint64(own), End: ticket.EndTime})
	if err != nil {
		return nil, nil, who, err
	}
	return reply, tokens, rpcsecgss.Principal{Name: strings.Join(ticket.CName.NameString, "/"), Realm: ticket.CRealm}, nil
}

// refusal is a reason that an initiator is told by its number (RFC 4120 section 7.5.9).
type refusal struct {
	code int32
	why  string
}

func (r *refusal) Error() string { return r.why }

func refuse(code int32, format string, args ...any) error {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// explain makes the token with a KRB-ERROR (RFC 4120 section 5.9.1) for what check has
// returned; nil if there is nothing to tell.
func (a *Acceptor) explain(req *messages.APReq, err error) []byte {
	var r *refusal
	if !errors.As(err, &r) {
		return nil
	}
	e := messages.NewKRBError(req.Ticket.SName, req.Ticket.Realm, r.code, r.why)
	msg, err := e.Marshal()
	if err != nil {
		return nil // the names in the ticket cannot be encoded
	}
	return appendFramed(nil, idError, msg)
}

// check decrypts ticket and authenticator and checks them (RFC 4120 section 3.2.3).
func (a *Acceptor) check(req *messages.APReq) error {
	service := req.Ticket.SName.NameString
	if len(service) == 0 || service[0] != a.service {
		return refuse(errorcode.KRB_AP_ERR_NOT_US, "ticket for %q, want one for %s", strings.Join(service, "/"), a.service)
	}
	if err := decryptable(req.Ticket.EncPart); err != nil {
		return fmt.Errorf("ticket: %w", err)
	}
	kt, err := a.keys.load()
	if err != nil {
		return err
	}
	if err := req.Ticket.DecryptEncPart(kt, nil); err != nil {
		return refuse(errorcode.KRB_AP_ERR_NOKEY, "%v", err)
	}
	ticket := &req.Ticket.DecryptedEncPart
	now := a.now()
	switch {
	case types.IsFlagSet(&ticket.Flags, flags.Invalid), ticket.StartTime.Sub(now) > maxSkew:
		return refuse(errorcode.KRB_AP_ERR_TKT_NYV, "ticket is not valid yet")
	case !now.Before(ticket.EndTime):
		return refuse(errorcode.KRB_AP_ERR_TKT_EXPIRED, "ticket has expired at %v", ticket.EndTime)
	}
	e, ok := enctypes[ticket.Key.KeyType]
	if !ok || len(ticket.Key.KeyValue) != e.keyLen || ticket.Key.KeyType != req.EncryptedAuthenticator.EType {
		return fmt.Errorf("session key of encryption type %d and %d bytes, authenticator of type %d",
			ticket.Key.KeyType, len(ticket.Key.KeyValue), req.EncryptedAuthenticator.EType)
	}
	if err := decryptable(req.EncryptedAuthenticator); err != nil {
		return fmt.Errorf("authenticator: %w", err)
	}
	if err := req.DecryptAuthenticator(ticket.Key); err != nil {
		return refuse(errorcode.KRB_AP_ERR_BAD_INTEGRITY, "%v", err)
	}
	auth := &req.Authenticator
	if auth.CRealm != ticket.CRealm || !slices.Equal(auth.CName.NameString, ticket.CName.NameString) {
		return refuse(errorcode.KRB_AP_ERR_BADMATCH, "authenticator and ticket name different clients")
	}
	if skew := now.Sub(auth.CTime.Add(time.Duration(auth.Cusec) * time.Microsecond)); skew.Abs() > maxSkew {
		return refuse(errorcode.KRB_AP_ERR_SKEW, "clock differs by %v", skew)
	}
	return checkFlags(auth.Cksum)
}

// decryptable reports why d is nothing that may be decrypted, by the encryption type
// that it names and its length.
func decryptable(d types.EncryptedData) error {
	e, ok := enctypes[d.EType]
	if !ok {
		return fmt.Errorf("encryption type %d is not supported: AES is needed", d.EType)
	}
	if len(d.Cipher) <= confounder+e.macLen {
		return fmt.Errorf("%d bytes encrypted", len(d.Cipher))
	}
	return nil
}

// Of the authenticator's checksum (RFC 4121 section 4.1.1).
const (
	gssChecksum = 0x8003
	flagMutual  = 2
)

// checkFlags checks that what RPCSEC_GSS needs was asked for.
func checkFlags(c types.Checksum) error {
	if c.CksumType != gssChecksum || len(c.Checksum) < 24 || binary.LittleEndian.Uint32(c.Checksum) != 16 {
		return fmt.Errorf("authenticator with a checksum of type %#x and %d bytes", c.CksumType, len(c.Checksum))
	}
	if f := binary.LittleEndian.Uint32(c.Checksum[20:]); f&flagMutual == 0 {
		return fmt.Errorf("context flags %#x: mutual authentication is needed", f)
	}
	return nil
}

// makeReply makes the token with an AP-REP (RFC 4120 section 5.5.2).
func makeReply(session types.EncryptionKey, auth *types.Authenticator, sub types.EncryptionKey, seq uint32) ([]byte, error) {
	part, err := asn1.Marshal(messages.EncAPRepPart{CTime: auth.CTime.UTC(), Cusec: auth.Cusec, Subkey: sub, SequenceNumber: int64(seq)})
	if err != nil {
		return nil, err
	}
	sealed, err := crypto.GetEncryptedData(asn1tools.AddASNAppTag(part, asnAppTag.EncAPRepPart), session, keyusage.AP_REP_ENCPART, 0)
	if err != nil {
		return nil, err
	}
	rep, err := asn1.Marshal(messages.APRep{PVNO: iana.PVNO, MsgType: msgtype.KRB_AP_REP, EncPart: sealed})
	if err != nil {
		return nil, err
	}
	return appendFramed(nil, idReply, asn1tools.AddASNAppTag(rep, asnAppTag.APREP)), nil
}
