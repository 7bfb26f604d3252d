package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss/krb5"
)

// security is how the server is to know who calls: a word of sec=.
type security struct {
	name    string
	flavor  uint32 // that MOUNT and SECINFO have for it (RFC 2623 section 2.2.1)
	service rpcsecgss.Service
}

var securities = []security{
	{"sys", 1, 0},
	{"krb5", 390003, rpcsecgss.None},
	{"krb5i", 390004, rpcsecgss.Integrity},
	{"krb5p", 390005, rpcsecgss.Privacy},
}

// security is that of the options; AUTH_SYS where they have none.
func (c *Config) security() security {
	i := max(0, slices.IndexFunc(securities, func(s security) bool { return s.name == c.Options.Sec }))
	return securities[i]
}

// offered is the first of the flavors that a server has named in refusing a mount without sec=
// which can be had here, as mount.nfs chooses; "" if there is none.
func offered(cfg *Config, err error) string {
	var refused *nfs3.MountError
	if cfg.Options.Sec != "" || !errors.As(err, &refused) || refused.Failure != nfs3.NoFlavor {
		return ""
	}
	for _, f := range refused.Flavors {
		if i := slices.IndexFunc(securities, func(s security) bool { return s.flavor == f }); i > 0 {
			return securities[i].name
		}
	}
	return ""
}

// refusedInside adds what may help to the error of a version 3 mount whose MOUNT was granted and whose export's root is not:
// MOUNT knows nothing of TLS, by which a Linux server lets an export be reached alone.
func (c *Config) refusedInside(err error) error {
	var refused *nfs3.MountError
	status, _ := nfsclient.StatusOf(err)
	if status != nfsclient.ErrAccess || !errors.As(err, &refused) || refused.Failure != nfs3.NFSFailed || refused.Hint != "" {
		return err
	}
	more := *refused
	switch c.Options.XprtSec {
	case "mtls":
		more.Hint = "is the export for this host? on a Linux server: exportfs -v"
	case "tls":
		more.Hint = "the export may demand a certificate of this client, too: xprtsec=mtls; on a Linux server exportfs -v says so"
	default:
		more.Hint = "the export may demand TLS: proto=tcp,xprtsec=tls, or xprtsec=mtls; on a Linux server exportfs -v says so"
	}
	return &more
}

// kerberosError says that a mount with Kerberos has failed on this host.
type kerberosError struct {
	what string
	err  error
	hint string
}

func (e *kerberosError) Error() string {
	s := e.what
	if e.err != nil {
		s += ": " + e.err.Error()
	}
	if e.hint != "" {
		s += " (" + e.hint + ")"
	}
	return s
}

func (e *kerberosError) Unwrap() error { return e.err }

// prepare finds out what calls with Kerberos need, if the options ask for that.
func (c *Config) prepare(ctx context.Context) error {
	if c.security().service == 0 || c.tickets != nil {
		return nil
	}
	cf, err := Kerberos(ctx, c)
	if err != nil {
		return err
	}
	c.tickets = krb5.NewClient(cf)
	return nil
}

// Kerberos is where the tickets for a mount come from.
func Kerberos(ctx context.Context, c *Config) (krb5.Config, error) {
	o := &c.Options
	path := krb5.ConfPath(os.Getenv("KRB5_CONFIG"))
	conf, err := krb5.LoadConf(path)
	if err != nil {
		return krb5.Config{}, &kerberosError{"the configuration of Kerberos", err, "sec=krb5 needs " + path + ", with the realm and its KDC"}
	}
	host, err := serviceHost(ctx, c.Source.Host, conf.Canonicalize(c.Source.Host))
	if err != nil {
		return krb5.Config{}, err
	}
	self := uint32(os.Geteuid())
	return krb5.Config{
		Conf: conf, Host: host, Keytab: o.Keytab, Principal: o.Principal, CCache: o.CCache,
		Mounter: self, Self: self, Environment: os.Getenv("KRB5CCNAME"), MachineName: machineName(),
	}, nil
}

// serviceHost is the server's name in its principal: what the user has typed, made
// fully qualified by looking it up, but not by looking its address up, which leads astray
// behind address translation. Only where an address was typed there is nothing else.
func serviceHost(ctx context.Context, host string, canonical bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, leastConnectTimeout)
	defer cancel()
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		names, err := net.DefaultResolver.LookupAddr(ctx, a.String())
		if err != nil || len(names) == 0 {
			return "", &kerberosError{fmt.Sprintf("%s has no name, and Kerberos knows servers by name", a), err, "mount by the name that the server's keytab has"}
		}
		return strings.ToLower(strings.TrimSuffix(names[0], ".")), nil
	}
	if canonical {
		if full, err := net.DefaultResolver.LookupCNAME(ctx, host); err == nil && full != "" {
			return strings.ToLower(strings.TrimSuffix(full, ".")), nil
		}
	}
	return name, nil
}

// secured is d, or d with a context of Kerberos for each user if the options ask for that.
func (s *Session) secured(d transport.Dialer) transport.Dialer {
	if s.cfg.tickets == nil {
		return d
	}
	return rpcsecgss.NewDialer(d, rpcsecgss.Config{
		Service: s.cfg.security().service, Hard: !s.cfg.Options.Soft, Log: s.cfg.log(),
		Initiator: func(uid uint32) rpcsecgss.Initiator { return s.cfg.tickets.User(uid) },
	})
}
