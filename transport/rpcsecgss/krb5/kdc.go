package krb5

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
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
	if err := t.ticket.Unmarshal(e.ticket); err != nil {
		return nil, fmt.Errorf("ticket for %s: %w", e.server, err)
	}
	return t, nil
}

// serviceTicket asks the KDC for a ticket for a service (RFC 4120 section 3.3).
func serviceTicket(conf *Conf, tgt *ticket, realm string, parts []string) (*ticket, error) {
	// What is asked for stands in the request; the client has a name alone.
	cl := client.NewWithPassword(strings.Join(tgt.client.parts, "/"), tgt.client.realm, "", conf.Config, client.DisablePAFXFAST(true))
	defer cl.Destroy()
	cl.Credentials.SetCName(tgt.client.name())
	spn := types.PrincipalName{NameType: nametype.KRB_NT_SRV_HST, NameString: parts}
	from, key := tgt.ticket, tgt.key
	if realm != "" && realm != tgt.client.realm {
		cross := types.PrincipalName{NameType: nametype.KRB_NT_SRV_INST, NameString: []string{"krbtgt", realm}}
		_, rep, err := cl.TGSREQGenerateAndExchange(cross, tgt.client.realm, from, key, false)
		if err != nil {
			return nil, kdcError(conf, tgt.client.realm, fmt.Errorf("ticket for the realm %s: %w", realm, err))
		}
		from, key = rep.Ticket, rep.DecryptedEncPart.Key
	} else {
		realm = tgt.client.realm
	}
	_, rep, err := cl.TGSREQGenerateAndExchange(spn, realm, from, key, false)
	if err != nil {
		return nil, kdcError(conf, realm, fmt.Errorf("ticket for %s@%s: %w", strings.Join(parts, "/"), realm, err))
	}
	return &ticket{tgt.client, rep.Ticket, rep.DecryptedEncPart.Key, rep.DecryptedEncPart.EndTime}, nil
}

// login asks the KDC for a ticket-granting ticket by a key of a keytab (RFC 4120 section
// 3.1).
func login(conf *Conf, kt *keytab.Keytab, who principal) (*ticket, error) {
	name := strings.Join(who.parts, "/")
	cl := client.NewWithKeytab(name, who.realm, kt, conf.Config, client.DisablePAFXFAST(true))
	defer cl.Destroy()
	req, err := messages.NewASReqForTGT(who.realm, conf.Config, cl.Credentials.CName())
	if err != nil {
		return nil, err
	}
	// The KDC may have keys that the keytab lacks.
	req.ReqBody.EType = slices.DeleteFunc(slices.Clone(req.ReqBody.EType), func(t int32) bool {
		_, _, err := kt.GetEncryptionKey(cl.Credentials.CName(), who.realm, 0, t)
		return err != nil
	})
	if len(req.ReqBody.EType) == 0 {
		return nil, fmt.Errorf("the keytab has no AES key of %s that %s permits", who, conf.Path)
	}
	rep, err := cl.ASExchange(who.realm, req, 0)
	if err != nil {
		return nil, kdcError(conf, who.realm, fmt.Errorf("login as %s: %w", who, err))
	}
	return &ticket{who, rep.Ticket, rep.DecryptedEncPart.Key, rep.DecryptedEncPart.EndTime}, nil
}

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

// Error codes of RFC 4120 section 7.5.9 that something can be done about.
const (
	errClientUnknown  = 6
	errServiceUnknown = 7
	errNoEnctype      = 14
	errPreauth        = 24
	errSkew           = 37
)

// kdcError adds what may help to an error of an exchange with a realm's KDC.
func kdcError(conf *Conf, realm string, err error) error {
	hint := fmt.Sprintf("can the KDC of %s be reached, and does %s name it?", realm, conf.Path)
	switch text := err.Error(); { // the library keeps the code of the KDC's error in its text alone
	case hasCode(text, errClientUnknown):
		hint = "the realm has no such client: is the keytab, or krb5_principal=, the right one?"
	case hasCode(text, errServiceUnknown):
		hint = "the realm has no such service: mount by the host name that the server's keytab has, and see that [domain_realm] gives its realm"
	case hasCode(text, errNoEnctype):
		hint = "KDC, server and " + conf.Path + " have no AES encryption type in common"
	case hasCode(text, errPreauth):
		hint = "the key is not the one that the KDC has: make the keytab anew"
	case hasCode(text, errSkew):
		hint = "the clocks of this host and the KDC differ by more than five minutes"
	}
	return &Error{err, hint}
}

// hasCode reports whether an error of gokrb5 has a KDC's error code.
func hasCode(text string, code int) bool {
	return strings.Contains(text, fmt.Sprintf("(%d) ", code))
}

var errNoTicket = errors.New("no Kerberos ticket")
