package krb5

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// Finding is a part of what calls with Kerberos need: what there is, or, in Err, what is
// missing, and as an *Error what may help. Warning is what should be done though calls can be made.
type Finding struct {
	Name, Detail, Warning string
	Err                   error
}

// Examine looks at all that the mounting user's calls need, in the order in which it is
// needed.
func (c *Client) Examine(ctx context.Context) (all []Finding) {
	conf := c.cf.Conf
	add := func(name, detail string, err error) { all = append(all, Finding{Name: name, Detail: detail, Err: err}) }
	realm := conf.Realm(c.cf.Host)
	if realm == "" {
		add("realm", "", &Error{fmt.Errorf("%s has no realm for %s", conf.Path, c.cf.Host), "set default_realm there, or name the host in [domain_realm]"})
		return all
	}
	add("realm", fmt.Sprintf("%s, by %s", realm, conf.Path), nil)
	add("service", fmt.Sprintf("%s/%s@%s is what the server must have a key of", service, c.cf.Host, realm), nil)
	at, skew, err := c.askKDC(ctx, realm)
	if err != nil {
		add("KDC", "", kdcError(conf, realm, err))
	} else {
		add("KDC", at+" answers", nil)
		if skew.Abs() > maxSkew {
			add("clock", "", &Error{fmt.Errorf("this host and the KDC differ by %v", skew.Round(time.Second)), "set the clock; more than five minutes are not tolerated"})
		} else {
			add("clock", fmt.Sprintf("differs from the KDC's by %v", skew.Abs().Round(time.Second)), nil)
		}
	}
	if c.keys != nil {
		detail, err := c.examineKeytab()
		if err == nil || c.cf.Keytab != "" {
			all = append(all, Finding{"keytab", detail, c.exposed(), err})
		} else {
			add("keytab", fmt.Sprintf("not used: %v", err), nil)
		}
	}
	t, err := c.User(c.cf.Mounter).Ticket(ctx)
	if err != nil {
		add("ticket", "", err)
		return all
	}
	add("ticket", fmt.Sprintf("of %s for %s/%s, until %s, with a key of %s", t.Client, service, c.cf.Host, t.End.Local().Format(time.DateTime), t.Enctype), nil)
	return all
}

// examineKeytab says whose key of the keytab is used, and of which types there are any.
func (c *Client) examineKeytab() (string, error) {
	kt, err := c.keys.load()
	if err != nil {
		return "", &Error{err, "krb5_keytab= names the file"}
	}
	who, err := c.machine(kt)
	if err != nil {
		return "", err
	}
	types := map[int32]bool{}
	for _, e := range kt.Entries {
		if _, aes := enctypes[e.Key.KeyType]; aes && strings.Join(e.Principal.Components, "/") == strings.Join(who.parts, "/") {
			types[e.Key.KeyType] = true
		}
	}
	var names []string
	for _, t := range slices.Sorted(maps.Keys(types)) {
		names = append(names, enctypes[t].name)
	}
	return fmt.Sprintf("%s has keys of %s: %s", c.keys.path, who, strings.Join(names, ", ")), nil
}

// exposed is what is to be done about a keytab that every user of this host may read: who has the key is the machine.
func (c *Client) exposed() string {
	st, err := os.Stat(c.keys.path)
	if err != nil || st.Mode().Perm()&0o007 == 0 {
		return ""
	}
	return fmt.Sprintf("chmod 600 %s: all users of this host may use the keys in it", c.keys.path)
}

// askKDC asks the KDCs of a realm for a principal that there is not: the answer is an error,
// which has the KDC's time (RFC 4120 section 5.9.1). skew is by how much its clock is ahead.
func (c *Client) askKDC(ctx context.Context, realm string) (at string, skew time.Duration, err error) {
	req, err := messages.NewASReqForTGT(realm, c.cf.Conf.Config, types.NewPrincipalName(1, "rdmafs-doctor/clock"))
	if err != nil {
		return "", 0, err
	}
	msg, err := req.Marshal()
	if err != nil {
		return "", 0, err
	}
	sent := c.cf.Now()
	a, err := c.cf.Conf.ask(ctx, realm, msg)
	if err != nil {
		return "", 0, err
	}
	if a.refusal == nil {
		return "", 0, &BadAnswer{a.at, "it grants a ticket to a principal that nobody has made"}
	}
	middle := sent.Add(c.cf.Now().Sub(sent) / 2)
	return a.at, a.refusal.STime.Add(time.Duration(a.refusal.Susec) * time.Microsecond).Sub(middle), nil
}
