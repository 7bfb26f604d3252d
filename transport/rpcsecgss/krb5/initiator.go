package krb5

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/rdmafs/rdmafs/transport/rpcsecgss"
)

// Flags of the authenticator's checksum (RFC 4121 section 4.1.1.1). RPCSEC_GSS has its own
// protection against replays and disorder. Some acceptors make no MIC, or seal nothing, in
// a context that did not ask for it.
const (
	flagConf  = 16
	flagInteg = 32
)

// idError is the token of a KRB-ERROR (RFC 4121 section 4.1).
const idError = 0x0300

// initiate makes the token with an AP-REQ (RFC 4121 section 4.1), and what checks the
// answer to it: mutual authentication and a subkey are always asked for.
func initiate(t *ticket, now time.Time) (token []byte, finish func(reply []byte) (rpcsecgss.Tokens, error), err error) {
	e, ok := enctypes[t.key.KeyType]
	if !ok || len(t.key.KeyValue) != e.keyLen {
		return nil, nil, fmt.Errorf("session key of encryption type %d and %d bytes: AES is needed", t.key.KeyType, len(t.key.KeyValue))
	}
	if len(t.ticket.SName.NameString) == 0 {
		return nil, nil, errors.New("the ticket names no service") // gokrb5 takes the first part of the name
	}
	sum := binary.LittleEndian.AppendUint32(nil, 16)
	sum = append(sum, make([]byte, 16)...) // no channel bindings
	sum = binary.LittleEndian.AppendUint32(sum, flagMutual|flagInteg|flagConf)
	auth, err := types.NewAuthenticator(t.client.realm, t.client.name())
	if err != nil {
		return nil, nil, err
	}
	auth.CTime, auth.Cusec = now.UTC().Truncate(time.Second), now.Nanosecond()/1000
	auth.Cksum = types.Checksum{CksumType: gssChecksum, Checksum: sum}
	auth.SubKey = types.EncryptionKey{KeyType: t.key.KeyType, KeyValue: make([]byte, e.keyLen)}
	rand.Read(auth.SubKey.KeyValue) // never fails
	req, err := messages.NewAPReq(t.ticket, t.key, auth)
	if err != nil {
		return nil, nil, err
	}
	types.SetFlag(&req.APOptions, flags.APOptionMutualRequired)
	msg, err := req.Marshal()
	if err != nil {
		return nil, nil, err
	}
	if token = appendFramed(nil, idRequest, msg); len(token) > rpcsecgss.MaxToken {
		// A server closes the connection, which all users share, for what is longer than any call.
		return nil, nil, fmt.Errorf("the ticket for %s makes a token of %d bytes, and there may be %d", t.ticket.SName.PrincipalNameString(), len(token), rpcsecgss.MaxToken)
	}
	return token, func(reply []byte) (rpcsecgss.Tokens, error) {
		var tokens *Tokens
		err := guarded(func() (err error) { tokens, err = agree(t, &auth, reply); return err })
		if err != nil {
			return nil, err
		}
		return tokens, nil
	}, nil
}

// agree checks the acceptor's token (RFC 4120 section 3.2.5) and takes the keys from it.
func agree(t *ticket, auth *types.Authenticator, reply []byte) (*Tokens, error) {
	id, msg, err := parseFramed(reply)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if id == idError {
		var e messages.KRBError
		if err := e.Unmarshal(msg); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return nil, fmt.Errorf("%w: the server says: %w", ErrRefused, e)
	}
	if id != idReply {
		return nil, fmt.Errorf("%w: token of id %#04x, want an AP-REP", ErrRefused, id)
	}
	var rep messages.APRep
	if err := rep.Unmarshal(msg); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err := decryptable(rep.EncPart); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if rep.EncPart.EType != t.key.KeyType {
		return nil, fmt.Errorf("%w: AP-REP under a key of encryption type %d, the session key's is %d", ErrRefused, rep.EncPart.EType, t.key.KeyType)
	}
	plain, err := crypto.DecryptEncPart(rep.EncPart, t.key, keyusage.AP_REP_ENCPART)
	if err != nil {
		return nil, fmt.Errorf("%w: AP-REP: %w", ErrRefused, err)
	}
	var part messages.EncAPRepPart
	if err := part.Unmarshal(plain); err != nil {
		return nil, fmt.Errorf("%w: AP-REP: %w", ErrRefused, err)
	}
	if part.CTime.Unix() != auth.CTime.Unix() || part.Cusec != auth.Cusec {
		return nil, fmt.Errorf("%w: AP-REP for another request", ErrRefused)
	}
	a := Agreed{Initiator: true, Enctype: auth.SubKey.KeyType, Key: auth.SubKey.KeyValue, Seq: uint64(auth.SeqNumber), End: t.end}
	if len(part.Subkey.KeyValue) > 0 {
		a.Enctype, a.Key, a.AcceptorSubkey = part.Subkey.KeyType, part.Subkey.KeyValue, true
	}
	tokens, err := NewTokens(a)
	if err != nil {
		return nil, fmt.Errorf("%w: acceptor's subkey: %w", ErrRefused, err)
	}
	return tokens, nil
}

var errNotOwn = errors.New("only the user who mounts, or root, may use his tickets")
