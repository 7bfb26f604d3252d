package krb5

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// Finding is a part of what calls with Kerberos need: what there is, or, in Err, what is
// missing, and as an *Error what may help.
type Finding struct {
	Name, Detail string
	Err          error
}

// Examine looks at all that the mounting user's calls need, in the order in which it is
// needed.
func (c *Client) Examine(ctx context.Context) (all []Finding) {
	defer c.Wait()
	conf := c.cf.Conf
	add := func(name, detail string, err error) { all = append(all, Finding{name, detail, err}) }
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
			add("keytab", detail, err)
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

// The bounds of looking for a KDC.
const (
	kdcTimeout  = 3 * time.Second
	maxKDCReply = 64 << 10
)

// askKDC asks the KDCs of a realm, by TCP, for what they do not know, until one answers,
// and by how much its clock is ahead.
func (c *Client) askKDC(ctx context.Context, realm string) (at string, skew time.Duration, err error) {
	_, kdcs, err := c.cf.Conf.GetKDCs(realm, true)
	if err != nil {
		return "", 0, err
	}
	err = fmt.Errorf("no KDC of %s is known", realm)
	for _, k := range slices.Sorted(maps.Keys(kdcs)) {
		at = kdcs[k]
		if skew, err = c.ask(ctx, at, realm); err == nil {
			return at, skew, nil
		}
	}
	return at, 0, err
}

// ask makes one exchange with a KDC (RFC 4120 section 7.2.2): for a principal that there is
// not, so that the answer is an error, which has the KDC's time.
func (c *Client) ask(ctx context.Context, at, realm string) (skew time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, kdcTimeout)
	defer cancel()
	req, err := messages.NewASReqForTGT(realm, c.cf.Conf.Config, types.NewPrincipalName(1, "rdmafs-doctor/clock"))
	if err != nil {
		return 0, err
	}
	msg, err := req.Marshal()
	if err != nil {
		return 0, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", at)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return 0, err
	}
	sent := c.cf.Now()
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(msg))), msg...)); err != nil {
		return 0, err
	}
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxKDCReply {
		return 0, fmt.Errorf("%s answers with %d bytes: no KDC?", at, n)
	}
	answer := make([]byte, n)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return 0, err
	}
	var refusal messages.KRBError
	if err := refusal.Unmarshal(answer); err != nil {
		return 0, fmt.Errorf("%s does not answer as a KDC: %w", at, err)
	}
	now := c.cf.Now()
	middle := sent.Add(now.Sub(sent) / 2)
	return refusal.STime.Add(time.Duration(refusal.Susec) * time.Microsecond).Sub(middle), nil
}
